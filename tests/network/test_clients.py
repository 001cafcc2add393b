"""Real clients inside a sandbox: what is named is reached, what is not is told so, and there is no other way out."""

import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import zipfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from cellhouse import House
from cellhouse.environments import Environment
from cellhouse.model import FailedPrecondition, NetworkPolicy, NetworkSettings, RuntimeSpec
from cellhouse.runtime import Settings
from cellhouse.runtime.session_log import read_session_log
from tests.network.authority import Authority
from tests.network.outside import served, write_site
from tests.network.support import LOOPBACK
from tests.promises.conftest import warm_threads
from tests.promises.support import Caller
from tests.runtime.support import quiet, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLIENTS = (
    "requests",
    "urllib3",
    "charset_normalizer",
    "httpx",
    "httpcore",
    "h11",
    "anyio",
    "sniffio",
    "idna",
    "certifi",
)
PRELUDE = """
import json, os, ssl, subprocess, sys
sys.path.insert(0, "/content/clients.zip")
def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    print(json.dumps([done.returncode, done.stdout, done.stderr]))
"""


@dataclass(frozen=True)
class Outside:
    secure: str
    plain: str
    secure_port: int
    plain_port: int
    authority: Authority


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """Servers by names that lead to the loopback, as an answer of the name service would."""
    authority = Authority.new(tmp_path_factory.mktemp("ca"))
    root = tmp_path_factory.mktemp("site")
    write_site(root)
    really = socket.getaddrinfo

    def getaddrinfo(name: Any, *args: Any, **options: Any) -> Any:
        if name == "rebound.example":
            return really("169.254.169.254", *args, **options)
        return really("127.0.0.1" if f"{name}".endswith(".example") else name, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        with served(root, authority.server("files.example")) as secure, served(root) as plain:
            yield Outside(
                f"https://files.example:{secure}", f"http://plain.example:{plain}", secure, plain, authority
            )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(
    environment: Environment, outside: Outside, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[House]:
    settings = Settings(
        state_dir=tmp_path_factory.mktemp("network") / "state",
        environments=(environment.prefix.parent,),
        network=NetworkSettings(private=LOOPBACK, may_open=True, connections=40),
        spares=0,
    )
    await warm_threads()
    async with House(settings=settings) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def caller(house: House, outside: Outside, tmp_path_factory: pytest.TempPathFactory) -> Caller:
    """A session in a runtime that may reach the two servers, and what it needs for that in /content."""
    ports = (outside.secure_port, outside.plain_port)
    allow = (
        f"files.example:{ports[0]}",
        f"plain.example:{ports[1]}",
        f"rebound.example:{ports[1]}",
        *(f"127.0.0.1:{port}" for port in ports),
    )
    runtime = await house.create_runtime(RuntimeSpec(start="fresh", network=NetworkPolicy(allow=allow)))
    packed = tmp_path_factory.mktemp("packed") / "clients.zip"
    pack(packed)
    for name, path in (("clients.zip", packed), ("ca.pem", outside.authority.certificate)):
        await house.put_file(runtime.name, name, [path.read_bytes()])
    made = Caller(house, runtime.name, f"{runtime.name}/sessions/main")
    await made.run(PRELUDE)
    await quiet(house)
    return made


def pack(path: Path) -> None:
    """The client libraries of this environment, as modules of Python only."""
    with zipfile.ZipFile(path, "w") as packed:
        for name in (*CLIENTS, "typing_extensions"):
            found = importlib.util.find_spec(name)
            if found is None or found.origin is None:
                continue
            origin = Path(found.origin)
            if origin.name != "__init__.py":
                packed.write(origin, origin.name)
                continue
            for file in origin.parent.rglob("*"):
                if file.suffix in (".py", ".pem"):
                    packed.write(file, file.relative_to(origin.parent.parent))


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_open(caller: Caller) -> AsyncIterator[None]:
    """The proxy's side of a connection ends a moment after the client's, and only while its loop runs."""

    def none_open() -> bool:
        network = caller.house.get_runtime(caller.runtime).network
        return network is not None and network.connections == 0

    yield
    await until(none_open)


async def printed(caller: Caller, code: str) -> str:
    result = await caller.run(code)
    assert result.execution_error is None, (result.execution_error, result.stderr)
    return result.stdout


async def done(caller: Caller, *command: str) -> tuple[int, str, str]:
    """A program inside: its status, its output, its errors."""
    status, out, err = json.loads(await printed(caller, f"run(*{command!r})"))
    return status, out, err


async def test_urllib(caller: Caller, outside: Outside) -> None:
    code = f"""
import urllib.request, urllib.error
context = ssl.create_default_context(cafile="/content/ca.pem")
print(urllib.request.urlopen("{outside.secure}/hello.txt", context=context).read())
print(urllib.request.urlopen("{outside.plain}/hello.txt").read())
print(urllib.request.urlopen("{outside.plain}/x", data=b"abc").read())
print(len(urllib.request.urlopen("{outside.secure}/big.bin", context=context).read()))
for url in ("https://index.example/", "http://plain.example:81/"):
    try:
        urllib.request.urlopen(url)
    except OSError as error:
        print(error)
"""
    said = await printed(caller, code)
    assert said.count("hello from outside") == 2
    assert "cba" in said
    assert str(256 * 4_096) in said
    assert "does not name index.example:443" in said
    assert "does not name plain.example:81" in said


async def test_requests_and_httpx(caller: Caller, outside: Outside) -> None:
    code = f"""
import requests, httpx
for get in (
    lambda url: requests.get(url, verify="/content/ca.pem"),
    lambda url: httpx.get(url, verify=ssl.create_default_context(cafile="/content/ca.pem")),
):
    print(get("{outside.secure}/hello.txt").text, get("{outside.plain}/hello.txt").text, end=" ")
    try:
        get("https://index.example/")
    except (requests.RequestException, httpx.HTTPError) as error:
        print(type(error).__name__, error)
    print(get("http://index.example/").status_code)
with requests.Session() as session:
    session.verify = "/content/ca.pem"
    print(sum(len(session.get("{outside.secure}/hello.txt").content) for _ in range(5)))
"""
    said = await printed(caller, code)
    assert said.count("hello from outside hello from outside ProxyError") == 2
    assert said.count("does not name index.example:443") == 2
    assert said.count("\n403\n") == 2
    assert "\n90\n" in said


STARTS = pytest.mark.leaves(
    "the pipes for what the session's latest children print; they go with the session"
)


@STARTS
async def test_curl(caller: Caller, outside: Outside) -> None:
    if not shutil.which("curl"):
        pytest.skip("there is no curl on this machine")
    got = await done(caller, "curl", "-sS", "--cacert", "/content/ca.pem", f"{outside.secure}/hello.txt")
    assert got == (0, "hello from outside", "")
    assert (await done(caller, "curl", "-sS", f"{outside.plain}/hello.txt"))[1] == "hello from outside"
    status, _, said = await done(caller, "curl", "-sS", "https://index.example/")
    assert (status, "403" in said) == (56, True)
    # A certificate is the client's to judge: the tunnel is never opened up.
    assert (await done(caller, "curl", "-sS", f"{outside.secure}/hello.txt"))[0] == 60


@STARTS
async def test_git(caller: Caller, outside: Outside) -> None:
    if not shutil.which("git"):
        pytest.skip("there is no git on this machine")
    clone = ("git", "-c", "http.sslCAInfo=/content/ca.pem", "clone", "-q")
    assert (await done(caller, *clone, f"{outside.secure}/repo.git", "/tmp/cloned"))[0] == 0
    assert "the first" in (await done(caller, "git", "-C", "/tmp/cloned", "log", "--oneline"))[1]
    status, _, said = await done(caller, *clone, "https://git.example/repo.git", "/tmp/other")
    assert (status, "403" in said) == (128, True)


@STARTS
async def test_pip(caller: Caller, outside: Outside) -> None:
    pip = "sys.executable, '-m', 'pip', 'install', '-q', '--no-cache-dir', '--retries', '0', '--target', '/content/site'"
    index = f"'--cert', '/content/ca.pem', '--index-url', '{outside.secure}/simple', 'tiny-thing'"
    status, _, said = json.loads(await printed(caller, f"run({pip}, {index})"))
    assert (status, said) == (0, "") or "notice" in said
    assert "42" in await printed(
        caller, "sys.path.append('/content/site'); import tiny_thing; print(tiny_thing.ANSWER)"
    )
    await caller.run("import shutil; shutil.rmtree('/content/site')")


async def test_code_is_told_its_policy_in_words_and_as_variables(caller: Caller, outside: Outside) -> None:
    said = json.loads(await printed(caller, "print(json.dumps(dict(os.environ)))"))
    assert said["CELLHOUSE_NETWORK"].startswith("allow: this runtime reaches files.example:")
    assert said["HTTPS_PROXY"] == said["https_proxy"] == said["HTTP_PROXY"] == said["http_proxy"]
    assert "127.0.0.1" in said["NO_PROXY"]


async def test_there_is_no_other_way_out(caller: Caller, outside: Outside) -> None:
    code = f"""
import socket
found = {{}}
def tried(name, call):
    try:
        found[name] = repr(call())
    except Exception as error:
        found[name] = type(error).__name__
tried("name", lambda: socket.getaddrinfo("files.example", 443))
tried("public", lambda: socket.create_connection(("1.1.1.1", 443), 2))
tried("loopback", lambda: socket.create_connection(("127.0.0.1", {outside.plain_port}), 2))
tried("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("1.1.1.1", 53)))
for family in (socket.AF_NETLINK, socket.AF_PACKET, 40):
    tried(f"family {{int(family)}}", lambda: socket.socket(family, socket.SOCK_RAW))
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
def kill():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with open(f"/proc/{{pid}}/cmdline", "rb") as file:
            if b"bridge.py" in file.read():
                os.kill(int(pid), 9)
                return "killed"
tried("kill", kill)
print(json.dumps(found))
"""
    found = json.loads(await printed(caller, code))
    assert found == {
        "name": "gaierror",
        "public": "OSError",
        "loopback": "ConnectionRefusedError",
        "udp": "OSError",
        "family 16": "OSError",
        "family 17": "OSError",
        "family 40": "OSError",
        "raw": "PermissionError",
        "kill": "PermissionError",
    }


@pytest.mark.parametrize(
    "target",
    [
        "169.254.169.254:80",
        "2852039166:80",
        "0xa9fea9fe:80",
        "[::ffff:a9fe:a9fe]:80",
        "10.0.0.1:80",
        "localhost:22",
    ],
)
async def test_metadata_and_private_addresses_are_out_of_reach(caller: Caller, target: str) -> None:
    code = f"""
import socket
with socket.create_connection(("127.0.0.1", 3128)) as proxy:
    proxy.sendall(b"CONNECT {target} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    print(proxy.makefile("rb").readline()[:12])
"""
    assert (await printed(caller, code)).strip() in ("b'HTTP/1.1 403'", "b'HTTP/1.1 400'")


async def test_a_name_that_leads_to_metadata_is_out_of_reach(caller: Caller, outside: Outside) -> None:
    code = f"import urllib.request; urllib.request.urlopen('http://rebound.example:{outside.plain_port}/')"
    result = await caller.run(code)
    assert result.execution_error is not None
    assert "not on the public internet" in result.execution_error.value


@pytest.mark.slow
async def test_thousands_of_connections_hold_up_nobody(caller: Caller, outside: Outside) -> None:
    """Idle ones and garbage: the sandbox's own way out is taken up, the house and the other runtimes notice nothing."""
    code = """
import socket
held, answers = [], 0
for number in range(2000):
    try:
        made = socket.create_connection(("127.0.0.1", 3128), 0.02)
    except OSError:
        break
    held.append(made)
    if len(held) > 600:
        break
for made in held:
    made.setblocking(False)
    try:
        made.send(b"\\0" * 1000)
    except OSError:
        pass
for made in held:
    made.close()
print(len(held) > 100)
"""
    assert "True" in await printed(caller, code)
    report = caller.house.get_runtime(caller.runtime).network
    assert report is not None
    assert report.connections is not None
    assert report.connections <= 40
    get = f"import urllib.request; print(urllib.request.urlopen('{outside.plain}/hello.txt').read())"
    for _ in range(200):
        result = await caller.run(get)
        if result.execution_error is None:
            break
        await asyncio.sleep(0.05)
    assert "hello from outside" in result.stdout


@pytest.mark.leaves("the new bridge in place of the old one; both go with the runtime")
async def test_a_bridge_that_was_killed_is_replaced(caller: Caller, outside: Outside) -> None:
    [bridge] = bridges()
    os.kill(bridge, signal.SIGKILL)
    get = f"""
import time, urllib.request
for _ in range(100):
    try:
        print(urllib.request.urlopen("{outside.plain}/hello.txt").read())
        break
    except OSError:
        time.sleep(0.05)
"""
    assert "hello from outside" in await printed(caller, get)
    assert bridge not in bridges()


def bridges() -> list[int]:
    """Those of this process."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            argv = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            if argv[-3:-1] == [b"/run/inside/bridge.py", b"3128"] and is_below(int(name)):
                found.append(int(name))
    return found


def is_below(pid: int) -> bool:
    while pid > 1 and pid != os.getpid():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid == os.getpid()


async def test_every_decision_is_in_the_report_and_in_the_runtimes_log(
    caller: Caller, outside: Outside
) -> None:
    await caller.run(
        "import urllib.request; urllib.request.urlopen('http://once.example:1234/secret-path?token=x')"
    )
    runtime = caller.house.get_runtime(caller.runtime)
    assert runtime.network_policy == "allow"
    assert runtime.network is not None
    assert runtime.network.refusals is not None
    last = runtime.network.refusals[-1]
    assert (last.target, last.reason) == ("once.example:1234", "NOT_NAMED")
    key = caller.runtime.removeprefix("runtimes/")
    log = caller.house.state_dir / "sessions" / key / "_network.jsonl"
    entries = [entry["text"] for entry in read_session_log(log)]
    assert entries[-1].startswith("refused NOT_NAMED once.example:1234: ")
    assert any(
        entry.startswith(f"allowed plain.example:{outside.plain_port}: HTTP, to 127.0.0.1")
        for entry in entries
    )
    assert "secret-path" not in log.read_text()


async def test_open_is_the_hosts_network_and_landlock_keeps_its_abstract_sockets(
    house: House, outside: Outside
) -> None:
    runtime = await house.create_runtime(RuntimeSpec(start="fresh", network=NetworkPolicy(policy="open")))
    try:
        assert runtime.network_policy == "open"
        assert runtime.isolation is not None
        layer = next(each for each in runtime.isolation.layers if each.name == "network")
        assert layer.status == "absent"
        name = f"\0cellhouse-test-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)
            listener.listen()
            caller = Caller(house, runtime.name, f"{runtime.name}/sessions/main")
            code = f"""
import os, socket
print(os.environ["CELLHOUSE_NETWORK"], "HTTPS_PROXY" in os.environ)
socket.create_connection(("127.0.0.1", {outside.plain_port}), 5).close()
print("reached")
try:
    socket.socket(socket.AF_UNIX).connect({name!r})
    print("abstract socket reached")
except OSError as error:
    print(type(error).__name__)
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
except OSError as error:
    print("netlink", error.errno)
"""
            said = await printed(caller, code)
    finally:
        await house.delete_runtime(runtime.name)
    assert said.startswith("open: ")
    assert "False\nreached\nPermissionError\nnetlink 95\n" in said


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (RuntimeSpec(isolation="none", network=NetworkPolicy(policy="none")), "isolation 'none'"),
        (
            RuntimeSpec(isolation="none", network=NetworkPolicy(allow=("index.example:443",))),
            "isolation 'none'",
        ),
        (RuntimeSpec(network=NetworkPolicy(allow=("10.0.0.1:80",))), "network.private"),
    ],
)
async def test_a_policy_that_can_not_be_held_is_no_runtime(house: House, spec: RuntimeSpec, why: str) -> None:
    with pytest.raises(FailedPrecondition, match=why) as refused:
        await house.create_runtime(spec)
    assert refused.value.reason == "POLICY_UNAVAILABLE"


async def test_a_house_tells_what_can_be_asked_for(house: House) -> None:
    specs = await house.runtime_specs()
    walls = {offer.level: offer.network_policies for offer in specs.isolation}
    assert walls == {"bubblewrap": ("none", "allow", "open"), "none": ("host", "open")}
    assert specs.network is not None
    assert specs.network.may_open
    assert specs.network.private == LOOPBACK
