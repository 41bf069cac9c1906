"""Names of output files: Slurm's `slurm-%A_%a.out` as tgpu writes such names."""

from __future__ import annotations

from tgpu.dialects.slurm.refusal import SlurmError

_SAME = frozenset("jAaxNu%")
_FIXED = {"J": "%j", "n": "0", "t": "0", "s": "batch"}
"""Of a script, which is no step, and task 0 on node 0."""
OF_JOB, OF_ARRAY = "slurm-%j.out", "slurm-%A_%a.out"


def pattern(name: str, text: str, *, array: bool = False) -> str:
    """Of an array, each index has a file of its own by its %j, as in Slurm, where that differs."""
    found = _pattern(name, text)
    if array and "%a" not in found.replace("%%", ""):
        found = found.replace("%%", "\0").replace("%j", "%A_%a").replace("\0", "%%")
    return found


def _pattern(name: str, text: str) -> str:
    if not text:
        raise SlurmError(f"{name} must name a file, such as run-%j.out")
    if "\\" in text:  # as Slurm has it: nothing is replaced
        return text.replace("\\", "").replace("%", "%%")
    out, at = "", 0
    while at < len(text):
        if text[at] != "%":
            out += text[at]
            at += 1
            continue
        sign = text[at + 1 : at + 2]
        if sign in _SAME and sign:
            out += f"%{sign}"
        elif sign in _FIXED:
            out += _FIXED[sign]
        elif sign.isdigit():
            width = len(text) - at - 1 - len(text[at + 1 :].lstrip("0123456789"))
            meant = text[at + 1 + width :][:1] or "j"
            written = f"%{text[at + 1 : at + 1 + width]}{meant}"
            raise SlurmError(
                f"{name} cannot fill up numbers with zeros: write %{meant} for {written}; got {text!r}"
            )
        else:
            raise SlurmError(f"{name} can have %j %A %a %x %N %u and %% in it; got {text!r}")
        at += 2
    return out
