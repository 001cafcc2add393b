"""Processes that a cell starts, and forks of the kernel itself."""

from tests.kernels.cell import cell

SHELL = [
    cell("shell", "!echo from the shell", terminal=True),
    cell("shell-stderr", "!echo to stderr >&2", terminal=True),
    cell("shell-several-lines", "!printf 'a\\nb\\n'; echo c", terminal=True),
    cell("shell-with-variables", "word = 'w'\n!echo {word} $word $$HOME | cut -c1-3", terminal=True),
    cell(
        "shell-assigned",
        "lines = !echo one; echo two\nprint(type(lines).__name__, list(lines), lines.n, lines.s)",
        terminal=True,
    ),
    cell("shell-value", "!!echo listed", terminal=True),
    cell("shell-exit", "!exit 3\nprint(_exit_code)", terminal=True),
    cell("shell-no-such-command", "!no_such_command_here", loose=True, terminal=True),
    cell("shell-in-a-loop", "for i in range(3):\n    !echo {i}", terminal=True),
    cell("shell-killed", "!kill -9 $$\nprint(_exit_code)", terminal=True),
    cell("shell-is-no-terminal", "!test -t 1 && echo terminal || echo none", terminal=True),
    cell("shell-reads-nothing", "!cat < /dev/null; echo done", terminal=True),
    cell(
        "getoutput",
        "get_ipython().getoutput('echo a; echo b'), get_ipython().system('echo c')",
        terminal=True,
    ),
]

SYSTEM = [
    cell("os-system", "import os\nprint('before', flush=True)\nprint(os.system('echo child'))"),
    cell("os-system-fails", "import os\nos.system('echo gone >&2; exit 3')"),
    cell("popen", "import os\nos.popen('echo p').read()"),
    cell("subprocess-inherits", "import subprocess\nsubprocess.run(['echo', 'inherited'])"),
    cell("subprocess-captures", "import subprocess\nsubprocess.run('echo o; echo e >&2', shell=True, capture_output=True, text=True)"),
    cell("subprocess-checked", "import subprocess\nsubprocess.run('echo told; exit 7', shell=True, check=True)"),
    cell("subprocess-of-stdout", "import subprocess, sys\nsubprocess.run(['echo', 'given'], stdout=sys.stdout, stderr=sys.stderr).returncode"),
    cell("check-output", "import subprocess\nsubprocess.check_output(['echo', 'x'])"),
    cell("popen-object", "import subprocess\nwith subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:\n    print(p.communicate(b'through'))"),
    cell("popen-inherits", "import subprocess\nsubprocess.Popen('echo a; echo b >&2', shell=True).wait()"),
    cell("popen-timeout", "import subprocess\nsubprocess.run(['sleep', '20'], timeout=0.05)"),
    cell("subprocess-stdin", "import subprocess\nsubprocess.run(['cat'])"),
    cell("subprocess-missing", "import subprocess\nsubprocess.run(['no-such-program'])"),
    cell("subprocess-of-100-kb", "import subprocess\nsubprocess.run('head -c 100000 /dev/zero | tr \"\\\\0\" x; echo', shell=True).returncode"),
    cell("subprocess-of-python", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(1); import sys; sys.exit(4)']).returncode"),
    cell("asyncio-subprocess", "import asyncio\np = await asyncio.create_subprocess_exec('echo', 'async', stdout=asyncio.subprocess.PIPE)\nprint(await p.communicate(), p.returncode)"),
    cell("asyncio-subprocess-inherits", "import asyncio\np = await asyncio.create_subprocess_shell('echo inherited')\nawait p.wait()"),
    cell("posix-spawn", "import os\npid = os.posix_spawn('/bin/echo', ['echo', 'spawned'], os.environ)\nos.waitpid(pid, 0)[1]"),
    cell("pty", "import os, pty\npid, fd = pty.fork()\nif pid == 0:\n    os.write(1, b'in a terminal')\n    os._exit(0)\nprint(os.read(fd, 100), os.waitpid(pid, 0)[1])"),
    cell("child-that-outlives", "import subprocess\nlasting = subprocess.Popen(['sleep', '0.3'], stdout=subprocess.DEVNULL)\n'meanwhile'"),
    cell("child-awaited-later", "lasting.wait()"),
]  # fmt: skip

FORKS = [
    cell("fork", "import os\nprint('before')\npid = os.fork()\nif pid == 0:\n    os._exit(5)\nprint('parent', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"),
    cell("fork-that-writes", "import os\npid = os.fork()\nif pid == 0:\n    os.write(1, b'of the child\\n')\n    os._exit(0)\nos.waitpid(pid, 0)[1]"),
    cell("fork-that-prints", "import os, sys\npid = os.fork()\nif pid == 0:\n    print('printed by the child')\n    sys.stdout.flush()\n    os._exit(0)\nos.waitpid(pid, 0)[1]", loose=True),
    cell("fork-twice", "import os\npids = []\nfor n in range(2):\n    pid = os.fork()\n    if pid == 0:\n        os._exit(n)\n    pids.append(pid)\n[os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in pids]"),
    cell("after-the-forks", "print('whole'); 'value'"),
    cell("process-by-fork", "import multiprocessing as mp\np = mp.get_context('fork').Process(target=print, args=('of a process',))\np.start(); p.join(); p.exitcode", loose=True),
    cell("process-that-fails", "import multiprocessing as mp\ndef fail(): raise ValueError('in the process')\np = mp.get_context('fork').Process(target=fail)\np.start(); p.join(); p.exitcode", loose=True),
    cell("process-with-a-queue", "import multiprocessing as mp\ncontext = mp.get_context('fork')\nqueue = context.Queue()\np = context.Process(target=lambda: queue.put([1, 2]))\np.start(); got = queue.get(); p.join()\ngot, p.exitcode"),
    cell("pool-by-fork", "import multiprocessing as mp\ndef square(n): return n * n\nwith mp.get_context('fork').Pool(2) as pool:\n    print(pool.map(square, range(5)))"),
    cell("pool-that-fails", "with mp.get_context('fork').Pool(1) as pool:\n    pool.map(int, ['x'])", before="import multiprocessing as mp"),
    cell("pool-by-spawn", "import multiprocessing as mp\nwith mp.get_context('spawn').Pool(1) as pool:\n    print(pool.map(abs, [-1, 2]))"),
    cell("process-by-spawn", "import multiprocessing as mp\np = mp.get_context('spawn').Process(target=print, args=('spawned',))\np.start(); p.join(); p.exitcode", loose=True),
    cell("spawn-of-a-cell-function", "import multiprocessing as mp\ndef of_the_cell(): pass\np = mp.get_context('spawn').Process(target=of_the_cell)\np.start(); p.join(); p.exitcode", loose=True),
    cell("process-pool-executor", "from concurrent.futures import ProcessPoolExecutor\nimport multiprocessing as mp\nwith ProcessPoolExecutor(2, mp_context=mp.get_context('fork')) as pool:\n    print(list(pool.map(pow, [2, 3], [3, 2])))"),
    cell("process-pool-broken", "import os\nwith ProcessPoolExecutor(1, mp_context=mp.get_context('spawn')) as pool:\n    pool.submit(os._exit, 1).result()", before="from concurrent.futures import ProcessPoolExecutor\nimport multiprocessing as mp"),
    cell("alive-after-all-of-it", "print('still whole'); display('shown'); 1 + 1"),
]  # fmt: skip

CELLS = [*SHELL, *SYSTEM, *FORKS]
