"""Amounts of memory and disk as Slurm writes them: `16G`, `4000` (MB), `1.5T`."""

from __future__ import annotations

import re

from tgpu.dialects.slurm.refusal import SlurmError

_SIZE = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE)
_KIB = {"k": 1, "m": 1024, "": 1024, "g": 1024**2, "t": 1024**3, "p": 1024**4}
_MOST_MIB = 2**40


def mebibytes(name: str, text: str) -> int:
    """A part of a MiB is rounded up."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise SlurmError(f"{name} must be a size such as 4000 (MB), 16G or 1T; got {text!r}")
    whole, part, unit = match[1], match[2] or "", _KIB[match[3].lower()]
    scale = 10 ** len(part)
    found: int = -(-int(whole + part) * unit // (1024 * scale))
    if found > _MOST_MIB:
        raise SlurmError(f"{name} may be at most 1048576T; got {text!r}")
    return found


def written(mib: int) -> str:
    """As Slurm does: the largest unit in which it is a whole number, `16G`, `1500M`; nothing is `0`."""
    for unit, size in (("T", 1024**2), ("G", 1024)):
        if mib and mib % size == 0:
            return f"{mib // size}{unit}"
    return f"{mib}M" if mib else "0"


def in_unit(text: str, unit: str) -> str:
    """`17408K` in G is `0.02G`; what is no amount stays as it is."""
    kib = _KIB.get(unit.lower()) if unit else None
    if kib is None:
        raise SlurmError(f"--units must be K, M, G, T or P; got {unit!r}")
    if not text or text == "0":
        return text
    found = int(text[:-1]) * _KIB[text[-1].lower()] / kib
    return f"{int(found)}{unit.upper()}" if found == int(found) else f"{found:.2f}{unit.upper()}"
