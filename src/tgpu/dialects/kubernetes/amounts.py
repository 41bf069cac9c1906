"""Amounts as Kubernetes writes them (`500m`, `2Gi`, `129e6`), and the exact integers they mean here."""

import re
from fractions import Fraction
from math import ceil

from tgpu.dialects.kubernetes.problems import refused
from tgpu.domain.quantities import MAX_CPU_MILLI, MAX_GENERIC, MAX_MIB, MILLI

Amount = int | float | str

_MIB = 1 << 20
_LONGEST = 40
_AMOUNT = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,2}))?"
)
_SUFFIXES = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(["", "k", "M", "G", "T", "P", "E"])},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate("mun", start=1)},
}


def cpu(path: str, amount: Amount) -> float:
    """`500m` and `0.5` → 0.5."""
    thousandths = _exact(path, amount, "500m or 2") * MILLI
    if thousandths.denominator != 1:
        raise refused(path, f"may be as fine as 1m; got {amount}")
    if not 0 < thousandths <= MAX_CPU_MILLI:
        raise refused(path, f"must be more than 0 and at most {MAX_CPU_MILLI // MILLI}; got {amount}")
    return thousandths.numerator // MILLI if thousandths % MILLI == 0 else thousandths.numerator / MILLI


def mebibytes(path: str, amount: Amount) -> int:
    """`2Gi` → 2048; a part of a MiB is rounded up."""
    size = _exact(path, amount, "512Mi or 2Gi") / _MIB
    if size > MAX_MIB:
        raise refused(path, f"may be at most 1Ei; got {amount}")
    return ceil(size)


def whole(path: str, amount: Amount) -> int:
    """Of devices and other things that cannot be divided."""
    number = _exact(path, amount, "1")
    if number.denominator != 1:
        raise refused(path, f"must be a whole number; got {amount}")
    if number > MAX_GENERIC:
        raise refused(path, f"may be at most {MAX_GENERIC}; got {amount}")
    return number.numerator


def _exact(path: str, amount: Amount, example: str) -> Fraction:
    text = str(amount)
    found = _AMOUNT.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise refused(path, f"must be an amount such as {example}; got {text[:_LONGEST]!r}")
    number = Fraction(found["number"]) * _SUFFIXES[found["suffix"] or ""]
    number *= Fraction(10) ** int(found["exponent"] or 0)
    if found["sign"] == "-" and number:
        raise refused(path, f"must not be negative; got {amount}")
    return number
