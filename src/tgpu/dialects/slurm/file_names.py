"""Names of output files: Slurm's `slurm-%A_%a.out` as tgpu writes such names."""

from __future__ import annotations

import re

from tgpu.dialects.slurm.refusal import SlurmError

SIGN = re.compile(r"%(\d*)(.?)", re.DOTALL)
_SAME = frozenset("jAaxNu%")
_NUMBERS = frozenset("jAa")
_FIXED = {"J": "%j", "n": "0", "t": "0", "s": "batch"}
"""Of a script, which is no step, and task 0 on node 0."""
_MOST_ZEROS = 10
OF_JOB, OF_ARRAY = "slurm-%j.out", "slurm-%A_%a.out"


def pattern(name: str, text: str, *, array: bool = False) -> str:
    """Of an array, each index has a file of its own by its %j, as in Slurm, where that differs."""
    found = _pattern(name, text)
    if array and not any(sign == "a" for _, sign in SIGN.findall(found)):
        found = SIGN.sub(lambda match: f"%{match[1]}A_%a" if match[2] == "j" else match[0], found)
    return found


def _pattern(name: str, text: str) -> str:
    if not text:
        raise SlurmError(f"{name} must name a file, such as run-%j.out")
    if "\\" in text:  # as Slurm has it: nothing is replaced
        return text.replace("\\", "").replace("%", "%%")

    def sign_of(match: re.Match[str]) -> str:
        width, sign = match[1], match[2]
        if sign in _FIXED:
            fixed = _FIXED[sign]
            return (
                f"%{_width(width)}{fixed[1:]}"
                if fixed.startswith("%")
                else fixed.zfill(int(_width(width) or 0))
            )
        if sign not in _SAME or not sign:
            raise SlurmError(f"{name} can have %j %A %a %x %N %u and %% in it; got {text!r}")
        return f"%{_width(width) if sign in _NUMBERS else ''}{sign}"  # of words Slurm ignores it

    return SIGN.sub(sign_of, text)


def _width(text: str) -> str:
    """Slurm fills up to ten digits, and says nothing of more."""
    return str(min(int(text[:3]), _MOST_ZEROS) or "") if text else ""
