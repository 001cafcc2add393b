"""Output belongs to the execution that began what makes it, also while another one runs."""

from cellhouse.model import LateEvent, Outcome
from tests.contract.rig import Rig, plain

WAIT = "import os, time\ndef wait():\n    while not os.path.exists({go!r}): time.sleep(0.002)\n"


async def test_work_of_an_earlier_execution_while_another_runs(native: Rig) -> None:
    """A thread, a pool's worker, a task, a timer and a child of the first one."""
    go, gone = str(native.content / "go"), str(native.content / "gone")
    first = await native.run(
        f"""{WAIT.format(go=go)}
import asyncio, concurrent.futures, subprocess, sys, threading
def work(name):
    wait()
    print(name)
    print(name, file=sys.stderr)
    display({{'text/html': name}}, raw=True)
async def later():
    while not os.path.exists({go!r}): await asyncio.sleep(0.002)
    print('task')
threading.Thread(target=work, args=('thread',)).start()
pool = concurrent.futures.ThreadPoolExecutor(1)
future = pool.submit(work, 'pool')
task = asyncio.create_task(later())
child = subprocess.Popen(['sh', '-c', 'while ! [ -e {go} ]; do sleep 0.01; done; echo child; touch {gone}'])
print('now')"""
    )
    assert first.result.stdout == "now\n"
    second = await native.started(
        f"""
print('second', flush=True)
future2 = pool.submit(lambda: print('of the second'))
while not os.path.exists({gone!r}): await asyncio.sleep(0.005)
future.result(); future2.result(); child.wait(); await task
print('end of the second')"""
    )
    await native.printed(second, "second")
    native.let_go()
    told = await native.end_of(second)
    assert plain(told) == (Outcome.OK, "second\nof the second\nend of the second\n", "", "")
    for text in ("thread\n", "pool\n", "task\n", "child\n"):
        await native.late(first, text)
    late = [event for event in first.log.read(0, 1000) if isinstance(event, LateEvent)]
    assert sorted(event.text or "" for event in late if event.name == "stderr") == ["pool\n", "thread\n"]
    assert [event.mime_types for event in late if event.mime_types] == [("text/html",)] * 2


async def test_an_error_of_a_thread_is_told_where_it_began(native: Rig) -> None:
    go = str(native.content / "go")
    first = await native.run(
        f"{WAIT.format(go=go)}\nimport threading\ndef fail():\n    wait()\n    1 / 0\n"
        "thread = threading.Thread(target=fail)\nthread.start()"
    )
    second = await native.started("print('second', flush=True)\nthread.join()")
    await native.printed(second, "second")
    native.let_go()
    assert plain(await native.end_of(second)) == (Outcome.OK, "second\n", "", "")
    await native.late(first, "ZeroDivisionError")


async def test_a_child_of_many_executions_each(native: Rig) -> None:
    """More of them than there are pipes kept apart: nobody gets another's text."""
    go = str(native.content / "go")
    told = []
    for number in range(40):
        code = f"import subprocess\nsubprocess.Popen(['sh', '-c', 'while ! [ -e {go} ]; do sleep 0.05; done; echo {number}.']);"
        told.append(await native.run(code))
    native.let_go()
    for number in range(30):
        event = await native.late(told[number], f"{number}.\n")
        assert event.text == f"{number}.\n"
    assert all(execution.result.stdout == "" for execution in told)


async def test_the_loop_lives_across_cells(native: Rig) -> None:
    await native.run("import asyncio\nloop = asyncio.get_running_loop()\nevent = asyncio.Event()")
    await native.run("task = asyncio.create_task(event.wait())")
    told = await native.run("event.set()\nawait task, asyncio.get_running_loop() is loop")
    assert told.result.result == "(True, True)"


async def test_a_process_that_is_forked_from_a_server(native: Rig) -> None:
    """Python 3.14 does so by default: the server has pipes of the execution that started it, and so has what it forks."""
    code = "import multiprocessing\ncontext = multiprocessing.get_context('forkserver')"
    assert (await native.run(code)).result.outcome is Outcome.OK
    for name in ("first", "second", "third"):
        told = await native.run(
            f"p = context.Process(target=print, args=({name!r},))\np.start()\np.join()\np.exitcode"
        )
        assert plain(told) == (Outcome.OK, f"{name}\n", "", "0"), told.result.execution_error


async def test_a_pool_that_is_forked_from_a_server_lives_on(native: Rig) -> None:
    code = """
import concurrent.futures, multiprocessing
context = multiprocessing.get_context('forkserver')
pool = concurrent.futures.ProcessPoolExecutor(1, mp_context=context)
pool.submit(abs, -1).result()"""
    assert plain(await native.run(code)) == (Outcome.OK, "", "", "1")
    assert plain(await native.run("pool.submit(abs, -2).result()")) == (Outcome.OK, "", "", "2")
    code = "import sys\np = context.Process(target=sys.exit, args=(5,))\np.start()\np.join()\npool.shutdown()\np.exitcode"
    assert plain(await native.run(code)) == (Outcome.OK, "", "", "5")
    assert plain(await native.run("multiprocessing.active_children()")) == (Outcome.OK, "", "", "[]")
