"""What is installed in a session: in a layer of its runtime, above the environment, which stays as it is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from cellhouse import ExecuteCodeRequest, ExecuteCodeResult, House
from cellhouse.environments import Environment
from cellhouse.model import Outcome, RuntimeSpec
from cellhouse.runtime import Settings
from tests.environments.making.wheels import make_wheel

INSTALL = "%pip install --quiet --no-index --find-links /content/wheels"


@pytest_asyncio.fixture
async def house(tmp_path: Path, environment: Environment) -> AsyncIterator[House]:
    settings = Settings(
        state_dir=tmp_path / "state",
        environments=(environment.prefix.parent,),
        preload=(),
        start="fresh",
    )
    async with House(settings=settings) as made:
        yield made


class Runtime:
    """One runtime with wheels in its /content."""

    def __init__(self, house: House, name: str) -> None:
        self.house, self.name = house, name

    async def run(self, code: str, session: str = "main") -> ExecuteCodeResult:
        request = ExecuteCodeRequest(code=code, session=f"{self.name}/sessions/{session}")
        return await (await self.house.execute(request))

    async def ran(self, code: str, session: str = "main") -> str:
        result = await self.run(code, session)
        assert result.outcome is Outcome.OK, (result.execution_error, result.stderr)
        return result.stdout + result.result


async def new(house: House, kernel: str, wheels: Path) -> Runtime:
    runtime = await house.create_runtime(RuntimeSpec(kernel=kernel))
    for wheel in wheels.iterdir():
        await house.put_file(runtime.name, f"wheels/{wheel.name}", [wheel.read_bytes()])
    return Runtime(house, runtime.name)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheels")
    make_wheel(directory, "thing", "1.0", ("tqdm",))
    make_wheel(directory, "tqdm", "999.0")
    return directory


@pytest.mark.parametrize("kernel", ["native", "python3"])
async def test_what_is_installed_is_the_runtimes_alone(
    house: House, wheels: Path, environment: Environment, kernel: str
) -> None:
    runtime = await new(house, kernel, wheels)
    try:
        result = await runtime.run(f"{INSTALL} thing\nimport thing; thing.version")
        assert (result.outcome, result.result) == (Outcome.OK, "'1.0'"), (result.stdout, result.stderr)
        # What the environment has was not installed a second time; a child and another session find the new one.
        assert await runtime.ran("import tqdm; tqdm.__file__") == repr(str(tqdm_of(environment)))
        assert await runtime.ran("!python -c 'import thing, numpy; print(thing.version)'") == "1.0\n"
        assert await runtime.ran("import thing; thing.version", "other") == "'1.0'"
        # A newer one than the environment's goes before it, from the next start on.
        await runtime.ran(f"{INSTALL} tqdm==999.0")
        assert tqdm_of(environment).exists()
        await house.restart(f"{runtime.name}/sessions/main")
        assert await runtime.ran("import tqdm; tqdm.version") == "'999.0'"
        assert await runtime.ran(
            "!pip uninstall --quiet --yes tqdm\n!python -c 'import tqdm; print(tqdm.__file__)'"
        ) == (f"{tqdm_of(environment)}\n")
        assert result.artifacts == ()
        if kernel == "native":
            assert (
                await runtime.ran("import os; os.path.realpath('/home/user/.packages')")
                == "'/content/.packages'"
            )
    finally:
        await house.delete_runtime(runtime.name)


def tqdm_of(environment: Environment) -> Path:
    (found,) = environment.prefix.glob("lib/python3*/site-packages/tqdm/__init__.py")
    return found


async def test_what_stands_in_the_way_is_said(house: House, wheels: Path) -> None:
    runtime = await new(house, "native", wheels)
    try:
        result = await runtime.run("%pip install --quiet no-such-package-anywhere")
        said = result.stderr + result.stdout
        assert "network policy none: this runtime has no network" in said
        assert '{"allow": ["HOST:PORT", …]}' in said
        assert ":443" in said.rpartition("allowed:")[2]
        helped = await runtime.run("!pip --version")
        assert "cellhouse:" not in helped.stderr + helped.stdout
    finally:
        await house.delete_runtime(runtime.name)


async def test_content_is_empty_until_pip_runs_and_a_file_in_its_place_costs_only_room(
    house: House, wheels: Path
) -> None:
    runtime = await new(house, "native", wheels)
    try:
        assert await runtime.ran("import os; os.listdir()") == "['wheels']"
        assert await runtime.ran("!python -c 'import sys; print(sys.prefix)'") == "/home/user/.packages\n"
        await house.put_file(runtime.name, ".packages", [b"mine"])
        await runtime.ran(f"{INSTALL} thing")
        assert (
            await runtime.ran("import thing; os.path.realpath(thing.__file__).startswith('/home')") == "True"
        )
        assert await runtime.ran("open('.packages').read()") == "'mine'"
    finally:
        await house.delete_runtime(runtime.name)


async def test_a_pth_file_that_exits_ends_no_later_session(house: House, wheels: Path) -> None:
    runtime = await new(house, "native", wheels)
    try:
        await runtime.ran(
            "import glob\n(library,) = glob.glob('/home/user/.packages/lib/python3*/site-packages')\n"
            "open(f'{library}/zz.pth', 'w').write('import sys; sys.exit(3)\\n')\nNone"
        )
        assert await runtime.ran("1 + 1", "other") == "2"
    finally:
        await house.delete_runtime(runtime.name)
