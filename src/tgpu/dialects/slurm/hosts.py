"""Lists of hosts: `n[1-3,7],login` for n1, n2, n3, n7 and login; with zeros in front, `n[001-004]`."""

from __future__ import annotations

import re

from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MOST = 65_536
_NUMBERED = re.compile(r"(.*?)(\d+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def expanded(name: str, text: str) -> list[str]:
    """Every host, in the order said."""
    hosts: list[str] = []
    for part in _parts(name, text):
        hosts += _one(name, part)
        if len(hosts) > _MOST:
            raise SlurmError(f"{name} may name at most {_MOST:,} hosts")
    return hosts


def _parts(name: str, text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            break
        if char == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    if depth:
        raise SlurmError(f"{name} must be hosts such as n1,n2 or n[1-4]; got {text!r}")
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def _one(name: str, part: str) -> list[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, tail = rest.partition("]")
    tails = _one(name, tail) if tail else [""]
    numbers = _numbers(name, inside)
    if len(numbers) * len(tails) > _MOST:
        raise SlurmError(f"{name} may name at most {_MOST:,} hosts")
    return [f"{head}{number}{end}" for number in numbers for end in tails]


def _numbers(name: str, text: str) -> list[str]:
    found: list[str] = []
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece.strip())
        if match is None:
            raise SlurmError(f"{name} must be hosts such as n[1-3,7]; got [{text}]")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or int(last) - int(first) >= _MOST:
            raise SlurmError(f"{name} must be hosts such as n[1-4], the smaller number first; got [{text}]")
        if len(found) + int(last) - int(first) >= _MOST:
            raise SlurmError(f"{name} may name at most {_MOST:,} hosts")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


def compressed(hosts: Iterable[str]) -> str:
    """As Slurm lists nodes: sorted, and those with one name and different numbers in brackets."""
    families: dict[tuple[str, int], list[int]] = {}
    order: list[tuple[str, int] | str] = []
    for host in sorted(set(hosts), key=_by_number):
        match = _NUMBERED.fullmatch(host)
        if match is None:
            order.append(host)
            continue
        digits = match[2]
        family = (match[1], len(digits) if digits.startswith("0") else 0)
        if family not in families:
            families[family] = []
            order.append(family)
        families[family].append(int(digits))
    return ",".join(one if isinstance(one, str) else _family(one, families[one]) for one in order)


def in_order(hosts: Sequence[str]) -> str:
    """The same, but for programs that take the first of them for the one of rank 0: never sorted anew."""
    short = compressed(hosts)
    return short if expanded("hosts", short) == list(hosts) else ",".join(hosts)


def _family(family: tuple[str, int], numbers: list[int]) -> str:
    name, width = family
    if len(numbers) == 1:
        return f"{name}{str(numbers[0]).zfill(width)}"
    return f"{name}[{ranges(numbers, width)}]"


def ranges(numbers: Iterable[int], width: int = 0) -> str:
    """`1-3,7`; a pair is written as a range, too."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(
        str(first).zfill(width) if first == last else f"{str(first).zfill(width)}-{str(last).zfill(width)}"
        for first, last in runs
    )


def _by_number(host: str) -> tuple[str, int, str]:
    match = _NUMBERED.fullmatch(host)
    return (match[1], int(match[2]), host) if match else (host, -1, host)


def repeated(counts: Iterable[int]) -> str:
    """`2(x3),1`: as tasks and CPUs per node are written."""
    runs: list[list[int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1][1] += 1
        else:
            runs.append([count, 1])
    return ",".join(str(count) if times == 1 else f"{count}(x{times})" for count, times in runs)
