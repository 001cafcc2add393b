"""`make test-peers`: notebooks of other packages, run by us and by nbclient, compared cell by cell."""

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import nbformat

from cellhouse.environments import Environment, find_environment
from cellhouse.house import House
from cellhouse.notebooks import BadNotebook, read_notebook
from tests.peers.both import compared, run_both, stored_in
from tests.peers.differences import EXPECTED, KEEP_GOING, REFUSED
from tests.peers.fetch import UNPACKED, fetched


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--only", default="", help="notebooks with this in their path")
    parser.add_argument("--verbose", action="store_true")
    asked = parser.parse_args()
    books = fetched(asked.cache)
    environment, bad, counts = (
        find_environment(),
        0,
        {"same": 0, "as listed": 0, "refused": 0, "only ours": 0, "left out": 0},
    )
    state = Path(tempfile.mkdtemp(prefix="cellhouse-peers-"))
    try:
        async with House(state / "state") as house:
            runtime = (await house.create_runtime()).name
            for paths in books.values():
                for path in paths:
                    name = str(path.relative_to(asked.cache / UNPACKED))
                    if asked.only not in name:
                        continue
                    verdict, told = await _look(house, runtime, environment, path, name, state)
                    if verdict in counts:
                        counts[verdict] += 1
                    else:
                        bad += 1
                    print(f"{verdict:10} {name}", flush=True)
                    for line in told if asked.verbose or verdict not in counts else ():
                        print(f"           {line[:600]}", flush=True)
    finally:
        shutil.rmtree(state, ignore_errors=True)
    print(", ".join(f"{count} {word}" for word, count in counts.items()) + f", {bad} different")
    return 1 if bad else 0


async def _look(
    house: House, runtime: str, environment: Environment, path: Path, name: str, state: Path
) -> tuple[str, list[str]]:
    """A verdict, and what is behind it."""
    try:
        given = read_notebook(path.name, path.read_bytes())
    except BadNotebook as error:
        return ("refused" if name in REFUSED else "REFUSED"), [error.message]
    if given.kernel is not None:
        return ("left out", [f"it is in {given.language or given.kernel}"])
    try:
        nbformat.read(str(path), 4)  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever it stumbles over
        return "only ours", [f"nbformat can't bring it up: {error}"]
    directory = Path(tempfile.mkdtemp(dir=state))
    ours, theirs = await run_both(house, runtime, environment, path, directory, keep_going=name in KEEP_GOING)
    found = compared(ours, theirs)
    told = [
        f"as stored: {'yes' if not compared(ours, stored_in(path)) else 'no'} (nbclient: {'yes' if not compared(theirs, stored_in(path)) else 'no'})"
    ]
    if not found:
        return ("same" if name not in EXPECTED else "NOT AS LISTED"), told
    return ("as listed" if name in EXPECTED else "DIFFERENT"), [*told, *found]


if __name__ == "__main__":
    os.environ.pop("CELLHOUSE_STATE_DIR", None)
    warnings.simplefilter("ignore")
    sys.exit(asyncio.run(main()))
