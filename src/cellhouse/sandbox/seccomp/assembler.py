"""Turns the rules into a program of classic BPF, the same byte for byte wherever and whenever that is done."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cellhouse.sandbox.seccomp.rules import EXISTS_NOT, RULES, Bits, Rule
from cellhouse.sandbox.seccomp.syscalls import X32_BIT, Machine

# Of linux/bpf_common.h and linux/seccomp.h.
LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
GO: Final = 0x05  # BPF_JMP | BPF_JA
EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
RETURN: Final = 0x06  # BPF_RET | BPF_K
RET_KILL_PROCESS: Final = 0x80000000
RET_ERRNO: Final = 0x00050000
RET_ALLOW: Final = 0x7FFF0000

# Of struct seccomp_data; both machines are little-endian, so the lower half of an argument comes first.
NUMBER_AT: Final = 0
AUDIT_AT: Final = 4
ARGUMENTS_AT: Final = 16

NO_CALL: Final = 0xFFFFFFFF  # the number -1, by which a call is skipped
MOST_INSTRUCTIONS: Final = 4096  # BPF_MAXINSNS
FARTHEST: Final = 255  # that a conditional jump reaches
INSTRUCTION: Final = struct.Struct("<HBBI")


@dataclass(frozen=True, slots=True)
class _Instruction:
    """`yes` and `no` count the instructions that are skipped."""

    code: int
    k: int
    yes: int = 0
    no: int = 0


_Code = list[_Instruction]


def assemble(machine: Machine, rules: Sequence[Rule] = RULES) -> bytes:
    """The filter of one machine: an array of struct sock_filter."""
    code = [
        _Instruction(LOAD, AUDIT_AT),
        _Instruction(EQUAL, machine.audit, yes=1),
        _Instruction(RETURN, RET_KILL_PROCESS),
        _Instruction(LOAD, NUMBER_AT),
    ]
    if machine.x32:
        code += [
            _Instruction(AT_LEAST, X32_BIT, no=2),
            _Instruction(EQUAL, NO_CALL, yes=1),
            _Instruction(RETURN, RET_KILL_PROCESS),
        ]
    code += _choose(list(_ranges(machine, rules)))
    if len(code) > MOST_INSTRUCTIONS:
        raise ValueError(
            f"{len(code)} instructions are more than the {MOST_INSTRUCTIONS} that a kernel takes"
        )
    return b"".join(INSTRUCTION.pack(each.code, each.yes, each.no, each.k) for each in code)


def rules_of(machine: Machine, rules: Iterable[Rule]) -> dict[int, tuple[Rule, ...]]:
    """For each number of the table the rules that speak of it, in their order, up to the first without a condition."""
    found: dict[int, tuple[Rule, ...]] = dict.fromkeys(machine.numbers.values(), ())
    for rule in rules:
        for name in rule.calls.split():
            number = machine.numbers.get(name)
            if number is not None and all(earlier.when for earlier in found[number]):
                found[number] += (rule,)
    return found


def _ranges(machine: Machine, rules: Sequence[Rule]) -> Iterator[tuple[int, _Code]]:
    """(first number, what is done from it on), in rising order and without a gap."""
    unknown = (Rule("", EXISTS_NOT, "not in the table"),)
    table = rules_of(machine, rules)
    before: object = None
    for number in range(max(table) + 2):
        actions = table.get(number, unknown)
        answers = [(rule.answer, rule.when) for rule in actions]
        if answers != before:
            yield number, _act(actions)
        before = answers


def _act(rules: Sequence[Rule]) -> _Code:
    """The answer of the first rule whose conditions all hold; else the call is allowed."""
    code: _Code = []
    for rule in rules:
        code += _if_all(rule.when, [_Instruction(RETURN, RET_ERRNO | rule.answer)])
    if not rules or rules[-1].when:
        code.append(_Instruction(RETURN, RET_ALLOW))
    return code


def _if_all(conditions: Sequence[Bits], then: _Code) -> _Code:
    """`then` where all hold, else on with what comes after it."""
    code = then
    for condition in reversed(conditions):
        code = [*_test(condition, beyond=len(code)), *code]
    return code


def _test(condition: Bits, *, beyond: int) -> _Code:
    """Goes on with the next instruction where the condition holds, else skips `beyond` of them."""
    code = [_Instruction(LOAD, ARGUMENTS_AT + 8 * condition.argument + 4 * condition.upper)]
    if condition.mask != 0xFFFFFFFF:
        code.append(_Instruction(AND, condition.mask))
    for left in reversed(range(len(condition.values))):
        among, none = (_near(left + beyond), 0) if condition.other else (left, _near(beyond))
        value = condition.values[len(condition.values) - 1 - left]
        code.append(_Instruction(EQUAL, value, yes=among, no=none if left == 0 else 0))
    return code


def _choose(ranges: Sequence[tuple[int, _Code]]) -> _Code:
    """A binary search for the range that a number is in; the number is loaded."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    lower, upper = _choose(ranges[:middle]), _choose(ranges[middle:])
    first = ranges[middle][0]
    if len(lower) <= FARTHEST:
        return [_Instruction(AT_LEAST, first, yes=len(lower)), *lower, *upper]
    return [_Instruction(AT_LEAST, first, no=1), _Instruction(GO, len(lower)), *lower, *upper]


def _near(distance: int) -> int:
    if distance > FARTHEST:
        raise ValueError(f"a rule's conditions are too long: a jump of {distance} instructions")
    return distance
