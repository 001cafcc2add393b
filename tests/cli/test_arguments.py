"""What stands behind -- is the code's own."""

import pytest

from cellhouse.environments import Environment
from tests.cli.support import Cli


def test_a_file_gets_them_as_python_would_give_them(cli: Cli) -> None:
    (cli.directory / "code.py").write_text(
        "import argparse, sys\nparser = argparse.ArgumentParser()\nparser.add_argument('--json')\n"
        "parser.add_argument('name')\nprint(sys.argv, parser.parse_args())"
    )
    done = cli("run", "code.py", "--", "--json", "it's", "ä b \\ \n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == (
        "['code.py', '--json', \"it's\", 'ä b \\\\ \\n'] Namespace(json=\"it's\", name='ä b \\\\ \\n')\n"
    )


@pytest.mark.parametrize("kernel", ["native", "python3"])
def test_code_from_an_option_or_standard_input_gets_them_and_stays_the_first_cell(
    cli: Cli, kernel: str
) -> None:
    code = "import sys; print(sys.argv)"
    done = cli("run", "--kernel", kernel, "-c", code, "--", "-c", "x")
    assert done.stdout == b"['-c', '-c', 'x']\n", done.stderr
    done = cli("run", "--kernel", kernel, "--json", "-", "--", "--", "y", stdin=code.encode())
    assert b"['-', '--', 'y']" in done.stdout
    assert b'"executionCount":1,' in done.stdout


def test_a_kernel_of_another_language_takes_none_and_says_so(cli: Cli, bash_environment: Environment) -> None:
    names = ["--environment", bash_environment.name, "--kernel", "bash"]
    done = cli("run", *names, "-c", "echo 1", "--", "a", extra=[bash_environment])
    assert done.returncode == 3
    assert done.stdout == b""
    assert b"sys.argv" in done.stderr
    assert b"--input" in done.stderr


def test_without_any_the_kernel_keeps_its_own(cli: Cli) -> None:
    (cli.directory / "code.py").write_text("import sys; print(len(sys.argv))")
    assert cli("run", "code.py").stdout == b"1\n"
