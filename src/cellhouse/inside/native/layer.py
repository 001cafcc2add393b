"""A layer of the runtime's own above its environment: where pip installs, and what is found before all else.

The environment is read-only, and others' too. So each runtime has a virtual environment, `.packages` in its home, whose library
begins empty and goes on to that of the environment; what is installed there is this runtime's alone and ends with it. The
kernel itself runs by the environment's Python and finds the layer's modules first; `sys.executable`, `python` and `pip` are
the layer's. The home is small: before pip runs for the first time, the layer moves to /content, which is empty until then.

Standard library only, for any kernel of ours; nothing is imported from the rest of this package.
"""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import site
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

NAME = ".packages"
NETWORK = "CELLHOUSE_NETWORK"
GROW = "cellhouse_packages"

# Lines of a .pth file, run by the layer's Python as it starts. This kernel's own has all that already.
_BELOW = "import sys, site; sys.prefix == {root!r} and site.addsitedir({path!r})\n"
_BEGIN = "import sys; sys.prefix == {root!r} and __import__({grow!r})\n"

_GROW = """\
# Before pip runs: the layer moves to where there is room. Where it can't, it stays in the home.
import os
import sys

root, to = {root!r}, {to!r}


def grow():
    import shutil

    passing = to + "." + str(os.getpid())
    try:
        if not os.path.lexists(to):
            shutil.copytree(os.path.realpath(root), passing, symlinks=True)
            os.rename(passing, to)
        if os.path.isfile(os.path.join(to, "pyvenv.cfg")):
            link = root + "." + str(os.getpid())
            os.symlink(to, link)
            os.replace(link, root)
    except OSError:
        shutil.rmtree(passing, ignore_errors=True)


words = getattr(sys, "orig_argv", ["pip"])[:3]
if any(os.path.basename(word) in ("pip", "pip3") for word in words) and to not in (root, os.path.realpath(root)):
    grow()
"""

# A shebang holds 127 bytes on some systems, and no blanks: what sh makes of the first two lines is what pip's own do.
_PIP = """\
#!/bin/sh
'''exec' {python} "$0" "$@"
' '''
import os
import sys

try:
    from pip._internal.cli.main import main
except ImportError:
    sys.exit("pip: this environment has no pip, so nothing can be installed; make an environment that has what you need")
status = main()
policy = os.environ.get({network!r}, "")
if status and policy and not policy.startswith("open") and sys.argv[1:2] in (["install"], ["download"], ["wheel"], ["index"]):
    try:
        from pip._internal.models.index import PyPI
        asked = f"{{PyPI.netloc}}:443 and {{PyPI.file_storage_domain}}:443, or the hosts of the index that is configured"
    except ImportError:
        asked = "the hosts of the package index"
    print(f"cellhouse: where pip could not reach its index: network policy {{policy}}\\n"
          f"cellhouse: what pip needs allowed: {{asked}}; where that is allowed, what the proxy said is above", file=sys.stderr)
sys.exit(status)
"""


def enter(home: str, content: str) -> str:
    """Make this process see the layer, and the layer itself where this is the first; "" where there can be none."""
    root = os.path.join(home, NAME)
    try:
        if not os.path.lexists(root):
            _make(root, content)
        if not os.access(os.path.join(root, "bin", "python"), os.X_OK):
            return ""
    except OSError:  # a home that is full or not there: pip will say so, and all else goes on
        return ""
    _look_there_first(os.path.join(root, *_library()))
    sys.executable = os.path.join(root, "bin", "python")
    _tell(root, os.environ)
    return root


def add_magic(shell: Any, root: str) -> None:
    """`%pip` by the layer's pip, whose modules can be imported at once."""

    def pip(line: str) -> None:
        shell.system(f"{shlex.quote(os.path.join(root, 'bin', 'pip'))} {line}")
        importlib.invalidate_caches()
        if line.split()[:1] in (["install"], ["uninstall"]):
            print("Note: what was imported before stays as it was until the session is restarted.")

    shell.register_magic_function(pip, "line", "pip")


def _library() -> tuple[str, ...]:
    return ("lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")


def _make(root: str, content: str) -> None:
    """Whole at once: sessions of one runtime begin at the same time."""
    place = f"{root}-0"
    passing = f"{place}.{os.getpid()}"
    try:
        _fill(passing, root, os.path.join(content, NAME))
        os.rename(passing, place)
        os.symlink(os.path.basename(place), root)
    except OSError:
        shutil.rmtree(passing, ignore_errors=True)
        if not os.path.lexists(root):  # else somebody else was faster
            raise


def _fill(place: str, root: str, to: str) -> None:
    """A virtual environment (PEP 405) that will be found as `root`."""
    library = os.path.join(place, *_library())
    os.makedirs(library)
    os.mkdir(os.path.join(place, "bin"))
    base = getattr(sys, "_base_executable", None) or sys.executable
    version = ".".join(map(str, sys.version_info[:3]))
    text = f"home = {os.path.dirname(base)}\ninclude-system-site-packages = false\nversion = {version}\n"
    _write(os.path.join(place, "pyvenv.cfg"), text)
    below = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    lines = [*(_BELOW.format(root=root, path=path) for path in below), _BEGIN.format(root=root, grow=GROW)]
    _write(os.path.join(library, "_environment.pth"), "".join(lines))
    _write(os.path.join(library, f"{GROW}.py"), _GROW.format(root=root, to=to))
    os.symlink(base, os.path.join(place, "bin", "python"))
    for name in ("python3", f"python{sys.version_info[0]}.{sys.version_info[1]}"):
        os.symlink("python", os.path.join(place, "bin", name))
    script = _PIP.format(python=shlex.quote(os.path.join(root, "bin", "python")), network=NETWORK)
    for name in ("pip", "pip3"):
        path = os.path.join(place, "bin", name)
        _write(path, script)
        os.chmod(path, 0o755)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _look_there_first(library: str) -> None:
    before = list(sys.path)
    try:
        site.addsitedir(library)
    except SystemExit as error:  # of a .pth file, which may end no session but its maker's
        print(
            f"cellhouse: a .pth file in {library} asked to exit ({error.code}); it was not followed",
            file=sys.stderr,
        )
    added = [path for path in sys.path if path not in before]
    first = next((n for n, path in enumerate(before) if path.endswith("-packages")), len(before))
    sys.path[:] = [*before[:first], *added, *before[first:]]


def _tell(root: str, environ: MutableMapping[str, str]) -> None:
    """Programs that are started find it, too."""
    environ["PATH"] = os.pathsep.join(filter(None, (os.path.join(root, "bin"), environ.get("PATH", ""))))
    environ["VIRTUAL_ENV"] = root
    environ.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    environ.setdefault("PIP_NO_INPUT", "1")
    if _has_no_network(environ):
        environ.setdefault(
            "PIP_RETRIES", "0"
        )  # else pip waits for a quarter of a minute for what will not come


def _has_no_network(environ: Mapping[str, str]) -> bool:
    return environ.get(NETWORK, "").startswith("none")
