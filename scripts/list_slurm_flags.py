"""Writes the tables of docs/slurm.md from the tables of options themselves."""

import re
from collections.abc import Iterable
from pathlib import Path

from tgpu.dialects.slurm.allocation_flag_table import ALLOCATION_FLAGS
from tgpu.dialects.slurm.flag_table import FLAGS, Flag
from tgpu.dialects.slurm.options import NONE, OPTIONAL
from tgpu.dialects.slurm.step_flag_table import STEP_FLAGS

TARGET = Path(__file__).parent.parent / "docs" / "slurm.md"
_MARKED = re.compile(r"<!-- (sbatch|srun|salloc) -->\n.*?<!-- end -->\n", re.DOTALL)


def page() -> str:
    """The page as it is, with its tables as they have to be."""
    tables = {"sbatch": _table(FLAGS), "srun": _table(STEP_FLAGS), "salloc": _table(ALLOCATION_FLAGS)}
    text = TARGET.read_text(encoding="utf-8")
    return _MARKED.sub(lambda match: f"<!-- {match[1]} -->\n{tables[match[1]]}<!-- end -->\n", text)


def _table(flags: Iterable[Flag]) -> str:
    rows = [
        f"| {_written(flag)} | {_quoted(flag.variable)} | {flag.fate} | {_note(flag)} |" for flag in flags
    ]
    return "\n".join(["| option | variable | here it is | |", "|---|---|---|---|", *rows]) + "\n"


def _written(flag: Flag) -> str:
    value = {NONE: "", OPTIONAL: "[=…]"}.get(flag.takes, "=…")
    letter = f"`-{flag.letter}`, " if flag.letter else ""
    return f"{letter}`--{flag.name}{value}`"


def _quoted(text: str) -> str:
    return f"`{text}`" if text else ""


def _note(flag: Flag) -> str:
    return flag.note.replace("|", "\\|")


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
