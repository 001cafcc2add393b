"""The filter of system calls: the program does what the rules say, for every call and whatever is passed."""

import errno
import fcntl
import itertools
import os
import re
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from cellhouse.sandbox.seccomp import MACHINES, RULES, Machine, Rule, filter_for, this_filter
from cellhouse.sandbox.seccomp.assembler import assemble
from cellhouse.sandbox.seccomp.rules import Bits

KILL = 0x80000000
ALLOW = 0x7FFF0000
ENOSYS = 0x00050000 | errno.ENOSYS
NAMES = sorted(MACHINES)
I386, ARM = 0x40000003, 0x40000028
U64 = (1 << 64) - 1
# Whoever changes the rules changes these: what is in force is told by its digest.
DIGESTS = {
    "aarch64": "7467c321f5c22b3aed9c4fedc0c843db9f88da657ca61ed2a121f4b1f981b38a",
    "x86_64": "c83b9b86a95034b16e7b49e4f3f03ee241f73a95285a2d6b8d03d81f5677e59f",
}


def interpret(program: bytes, number: int, audit: int, arguments: tuple[int, ...]) -> int:
    """Classic BPF as the kernel runs it over struct seccomp_data; written from its documentation, not from the assembler."""
    data = struct.unpack("<16I", struct.pack("<IIQ6Q", number, audit, 0, *arguments))
    code = decoded(program)
    accumulator, at = 0, 0
    while True:
        instruction, yes, no, k = code[at]
        at += 1
        # Those that come most often first.
        if instruction == 0x15:  # jeq #k
            at += yes if accumulator == k else no
        elif instruction == 0x35:  # jge #k
            at += yes if accumulator >= k else no
        elif instruction == 0x20:  # ld [k]
            word, beside = divmod(k, 4)
            assert not beside
            accumulator = data[word]
        elif instruction == 0x06:  # ret #k
            return k
        elif instruction == 0x54:  # and #k
            accumulator &= k
        elif instruction == 0x05:  # ja k
            at += k
        else:
            raise AssertionError(f"{instruction:#x} is no instruction that we use")


@cache
def decoded(program: bytes) -> list[tuple[int, int, int, int]]:
    """Each instruction: what it does, how far it jumps if so and if not, and its constant."""
    return [(code, yes, no, k) for code, yes, no, k in struct.iter_unpack("<HBBI", program)]


@cache
def rules_of(machine: str) -> dict[int, list[Rule]]:
    """Each call of a machine by its number: the rules that name it, in their order."""
    return {
        number: [rule for rule in RULES if name in rule.calls.split()]
        for name, number in MACHINES[machine].numbers.items()
    }


def expected(machine: Machine, number: int, audit: int, arguments: tuple[int, ...]) -> int:
    """The rules, read one by one."""
    if audit != machine.audit:
        return KILL
    if machine.x32 and 0x40000000 <= number < 0xFFFFFFFF:
        return KILL
    rules = rules_of(machine.name).get(number)
    if rules is None:
        return ENOSYS
    for rule in rules:
        if all(condition.holds(arguments) for condition in rule.when):
            return 0x00050000 | rule.answer
    return ALLOW


def interesting(index: int) -> list[int]:
    """What an argument may be: each value and bit that a rule looks at, its neighbours, and garbage above it."""
    found = {0, 1, 0xFFFFFFFF, U64}
    for rule in RULES:
        for condition in rule.when:
            if condition.argument == index:
                for value in (*condition.values, condition.mask & 0xFFFF):
                    found |= {value, value ^ 1, value + 1, value | 0x10000, value | 0o4000, value | 1 << 32}
    return sorted(value & U64 for value in found)


INTERESTING = [interesting(index) for index in range(6)]


def condensed(call: Machine, number: int) -> Iterator[tuple[int, ...]]:
    """Combinations of arguments for one call; the looked-at ones in full."""
    rules = rules_of(call.name).get(number, [])
    used = {condition.argument for rule in rules for condition in rule.when}
    choices = [INTERESTING[i] if i in used else [0, U64] if i == 0 else [U64 // 3] for i in range(6)]
    return itertools.product(*choices)


@pytest.mark.parametrize("name", NAMES)
def test_every_call_with_whatever_a_rule_could_look_at(name: str) -> None:
    machine, made = MACHINES[name], filter_for(name)
    assert made is not None
    for number in range(max(machine.numbers.values()) + 20):
        for arguments in condensed(machine, number):
            got = interpret(made.program, number, machine.audit, arguments)
            assert got == expected(machine, number, machine.audit, arguments), (number, arguments)


words = st.integers(0, 0xFFFFFFFF)
numbers = st.one_of(st.integers(0, 600), words, st.integers(0, 600).map(lambda n: n | 0x40000000))
arguments_of = st.tuples(
    *(st.one_of(st.integers(0, U64), st.sampled_from(INTERESTING[index])) for index in range(6))
)


@settings(deadline=None, max_examples=500)
@given(
    name=st.sampled_from(NAMES),
    number=numbers,
    audit=st.one_of(st.just(0), words, st.sampled_from([I386, ARM, *(m.audit for m in MACHINES.values())])),
    arguments=arguments_of,
)
@example(name="x86_64", number=0xFFFFFFFF, audit=0xC000003E, arguments=(0,) * 6)
@example(name="x86_64", number=0x40000000, audit=0xC000003E, arguments=(0,) * 6)
@example(name="aarch64", number=0x40000000, audit=0xC00000B7, arguments=(0,) * 6)
def test_any_number_architecture_and_arguments(
    name: str, number: int, audit: int, arguments: tuple[int, ...]
) -> None:
    made = filter_for(name)
    assert made is not None
    assert interpret(made.program, number, audit, arguments) == expected(
        MACHINES[name], number, audit, arguments
    )


@pytest.mark.parametrize("name", NAMES)
def test_foreign_architectures_are_killed(name: str) -> None:
    machine, made = MACHINES[name], filter_for(name)
    assert made is not None
    for audit in {I386, ARM, *(other.audit for other in MACHINES.values())} - {machine.audit}:
        assert interpret(made.program, machine.numbers["read"], audit, (0,) * 6) == KILL
    if machine.x32:
        for number in (0x40000000, 0x40000000 + 512, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE):
            assert interpret(made.program, number, machine.audit, (0,) * 6) == KILL


def answer(call: str, *arguments: int, machine: str) -> int:
    made = filter_for(machine)
    assert made is not None
    full = (*arguments, *(0,) * (6 - len(arguments)))
    got = interpret(made.program, MACHINES[machine].numbers[call], MACHINES[machine].audit, full)
    return 0 if got == ALLOW else got & 0xFFFF


@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        ("clone3", (), "ENOSYS"),
        ("clone", (0x01200011,), "allowed"),  # fork, as the C library does it
        ("clone", (0x003D0F00,), "allowed"),  # a thread
        ("clone", (0x10000011,), "EPERM"),
        ("clone", (0x1_10000011,), "EPERM"),
        ("unshare", (0,), "EPERM"),
        ("socket", (1, 1, 0), "allowed"),
        ("socket", (2, 0o2000001, 6), "allowed"),
        ("socket", (10, 0o2004002, 17), "allowed"),
        ("socket", (16, 3, 0), "EOPNOTSUPP"),
        ("socket", (U64 - 0xFFFFFFFF + 16, 3, 0), "EOPNOTSUPP"),
        ("socket", (40, 1, 0), "EAFNOSUPPORT"),
        ("socket", (17, 3, 0), "EAFNOSUPPORT"),
        ("socket", (2, 3, 1), "EPERM"),
        ("socket", (2, 0o2000003, 1), "EPERM"),
        ("socket", (2, 1, 132), "EPROTONOSUPPORT"),
        ("socket", (2, 2, 1), "EPROTONOSUPPORT"),
        ("socketpair", (1, 1, 0), "allowed"),
        ("socketpair", (30, 1, 0), "EAFNOSUPPORT"),
        ("ioctl", (0, 0x5413), "allowed"),
        ("ioctl", (0, 0x5412), "EPERM"),
        ("ioctl", (0, 0x7_00005412), "EPERM"),  # the kernel looks at 32 bits of it
        ("personality", (0xFFFFFFFF,), "allowed"),
        ("personality", (0x0040000,), "EPERM"),
        ("mknodat", (0, 0, 0o010644), "allowed"),  # a fifo
        ("mknodat", (0, 0, 0o020644), "EPERM"),
        ("mknodat", (0, 0, 0o060644), "EPERM"),
        ("mknodat", (0, 0, 0o104755), "EPERM"),
        ("fchmodat", (0, 0, 0o755), "allowed"),
        ("fchmodat", (0, 0, 0o1777), "allowed"),
        ("fchmodat", (0, 0, 0o4755), "EPERM"),
        ("fchmodat2", (0, 0, 0o2755), "EPERM"),
        (
            "openat",
            (0, 0, 0o2000000, 0o7777),
            "allowed",
        ),  # creates nothing: the mode is whatever was in the register
        ("openat", (0, 0, 0o100, 0o644), "allowed"),
        ("openat", (0, 0, 0o101, 0o4755), "EPERM"),
        ("openat", (0, 0, 0o20200002, 0o2755), "EPERM"),  # O_TMPFILE
        ("openat2", (), "ENOSYS"),
        ("landlock_create_ruleset", (), "allowed"),
        ("landlock_restrict_self", (), "allowed"),
        ("seccomp", (), "allowed"),
        ("pidfd_open", (), "allowed"),
        ("pidfd_send_signal", (), "allowed"),
        ("pidfd_getfd", (), "EPERM"),
        ("io_uring_setup", (), "EPERM"),
        ("prlimit64", (0, 7, 0x7F0000000000, 0), "allowed"),
        ("prlimit64", (1, 7, 0, 0x7F0000001000), "allowed"),  # read only
        ("prlimit64", (1, 7, 0x7F0000000000, 0), "EPERM"),
        ("prlimit64", (1, 7, 0x1000, 0), "EPERM"),
        ("setpriority", (0, 0, 5), "allowed"),
        ("setpriority", (0, 1, 5), "EPERM"),
        ("setpriority", (2, 0, 5), "EPERM"),
        ("ioprio_set", (3, 0), "EPERM"),
        ("sched_setscheduler", (0, 5), "allowed"),
        ("sched_setscheduler", (7, 0), "allowed"),
        ("sched_setscheduler", (7, 5), "EPERM"),
        ("sched_setattr", (7,), "EPERM"),
        ("sched_setaffinity", (7,), "allowed"),  # the C library names threads by their number
        ("file_setattr", (), "allowed"),
    ],
)
@pytest.mark.parametrize("machine", NAMES)
def test_what_stands_in_the_rules(machine: str, call: str, arguments: tuple[int, ...], expected: str) -> None:
    assert answer(call, *arguments, machine=machine) == (
        0 if expected == "allowed" else getattr(errno, expected)
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_program_is_the_same_wherever_it_is_made(name: str) -> None:
    made = filter_for(name)
    assert made is not None
    assert made.digest == DIGESTS[name]
    assert assemble(MACHINES[name]) == made.program
    assert made.instructions < 512


def test_a_machine_without_a_table_has_no_filter() -> None:
    assert filter_for("riscv64") is None


def test_the_rules_name_calls_and_reasons() -> None:
    known = set().union(*(machine.numbers for machine in MACHINES.values()))
    for rule in RULES:
        assert set(rule.calls.split()) <= known, rule
        assert rule.why
        for condition in rule.when:
            assert all(value & condition.mask == value for value in condition.values), rule


def test_far_jumps() -> None:
    # So many different answers that a half of the search is farther away than a conditional jump reaches.
    machine = MACHINES["x86_64"]
    rules = [
        Rule(name, number % 100 + 1, "test", (Bits(0, 0xFFFFFFFF, (number,)),))
        for name, number in machine.numbers.items()
    ]
    program = assemble(machine, rules)
    for number in machine.numbers.values():
        assert interpret(program, number, machine.audit, (number,) * 6) == 0x00050000 | number % 100 + 1
        assert interpret(program, number, machine.audit, (number + 1,) * 6) == ALLOW


def test_the_file_is_sealed() -> None:
    made = this_filter()
    if made is None:
        pytest.skip(f"no filter for {os.uname().machine}")
    descriptor = made.open()
    try:
        with pytest.raises(PermissionError):
            os.write(descriptor, b"\0")
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 0)
        with pytest.raises(PermissionError):
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        assert os.read(descriptor, 65536) == made.program
    finally:
        os.close(descriptor)


X86_HEADERS = [Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm/unistd_64.h")]


def test_the_table_agrees_with_the_kernel_s_header() -> None:
    header = next((path for path in X86_HEADERS if path.exists()), None)
    if header is None:
        pytest.skip("the kernel's headers for x86_64 are not installed")
    told = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", header.read_text())}
    ours = MACHINES["x86_64"].numbers
    assert {name: number for name, number in ours.items() if name in told} == {
        name: number for name, number in told.items() if name in ours
    }
    assert len(set(told) & set(ours)) > 300
