"""`make test-versions`: the native kernel in every Python that is here, with the oldest and the newest IPython."""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.inside.versions import suites
from tests.inside.versions.prefixes import CACHE, OLDEST, CanNotBeMade, Prefix, prefixes
from tests.inside.versions.pythons import MINORS, find

ROOT = Path(__file__).resolve().parents[3]
LOGS = CACHE.with_name("version-logs")


def main() -> int:
    arguments = _arguments()
    LOGS.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[str, ...]] = []
    good = True
    suites_of: dict[str, Prefix] = {}
    for minor, python in find(os.environ, arguments.pythons).items():
        if python is None:
            rows.append((minor, "", "skipped: there is no such Python here", ""))
            continue
        try:
            for prefix in prefixes(python, fresh=arguments.fresh):
                if prefix.ipython != OLDEST or OLDEST not in suites_of:
                    suites_of[prefix.ipython] = prefix
                if arguments.what in ("native", "all"):
                    fine, told, seconds = _native_tests(prefix, arguments.workers)
                    good &= fine
                    rows.append((str(python), prefix.ipython, told, seconds))
        except CanNotBeMade as error:
            good = False
            print(error, file=sys.stderr)
            rows.append((str(python), "", "NO ENVIRONMENT (see above)", ""))
    # Each IPython's tests once: those of the oldest in the oldest Python, others in the newest that it was put into.
    for prefix in suites_of.values() if arguments.what in ("ipython", "all") else ():
        fine, told, seconds = _ipython_tests(prefix)
        good &= fine
        rows.append((str(prefix.python), prefix.ipython, told, seconds))
    _table([("Python", "IPython", "tests", "seconds"), *rows])
    return 0 if good else 1


def _native_tests(prefix: Prefix, workers: int) -> tuple[bool, str, str]:
    log = LOGS / f"{prefix.name}.log"
    argv = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--dist", "loadfile"]
    argv += [
        "-p",
        "no:cacheprovider",
        "--ignore",
        "tests/inside/native/test_landlock.py",
        "tests/inside/native",
    ]
    environ = {
        **os.environ,
        "CELLHOUSE_ENV_PATH": str(CACHE),
        "CELLHOUSE_NATIVE_ENVIRONMENTS": prefix.name,
    }
    began = time.monotonic()
    with log.open("w") as output:
        done = subprocess.run(
            argv, cwd=ROOT, env=environ, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    seconds = f"{time.monotonic() - began:.0f}"
    words = log.read_text()
    counts = re.findall(r"\d+ (?:passed|failed|errors?|skipped|xfailed)", words.rstrip().rpartition("\n")[2])
    told = f"native: {', '.join(counts) or 'none'}"
    if done.returncode:
        for line in re.findall(r"^(?:FAILED|ERROR) .*", words, re.MULTILINE):
            print(f"{prefix.name}: {line}", flush=True)
        told += f"; {log}"
    print(f"{prefix.name}: {told}", flush=True)
    return done.returncode == 0, told, seconds


def _ipython_tests(prefix: Prefix) -> tuple[bool, str, str]:
    log = LOGS / f"{prefix.name}-ipython.log"
    began = time.monotonic()
    try:
        verdict = suites.run(prefix, log)
    except CanNotBeMade as error:
        print(error, file=sys.stderr)
        return False, "IPython's own: CAN'T BE HAD (see above)", ""
    for name in verdict.failed:
        print(f"{prefix.name}: FAILED {name}", flush=True)
    for name in verdict.stale:
        print(f"{prefix.name}: PASSED {name}, which inapplicable.py says can't apply", flush=True)
    told = (
        f"IPython's own: {verdict.passed} passed, {len(verdict.failed)} failed, {len(verdict.inapplicable)} can't "
        f"apply, {len(verdict.theirs)} fail with its own shell too, {verdict.skipped} skipped"
    )
    if verdict.trouble:
        told = f"IPython's own: {verdict.trouble}"
    if not verdict.good:
        told += f"; {log}"
    return verdict.good, told, f"{time.monotonic() - began:.0f}"


def _table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="test-versions", description=__doc__)
    parser.add_argument(
        "--pythons",
        type=lambda text: [int(item.removeprefix("3.")) for item in text.split(",")],
        default=list(MINORS),
        help="minor versions, like 3.9,3.13",
    )
    parser.add_argument("--what", choices=("native", "ipython", "all"), default="all")
    parser.add_argument("--fresh", action="store_true", help="make all environments anew")
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
