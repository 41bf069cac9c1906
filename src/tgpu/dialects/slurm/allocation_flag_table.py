"""What `salloc` takes beside what it shares with `sbatch`, and what becomes of it."""

from __future__ import annotations

from tgpu.dialects.slurm.flag_table import FLAGS, MEANINGLESS, REFUSED, TRANSLATED, Flag
from tgpu.dialects.slurm.options import NONE, OPTIONAL, Options

ALLOCATION_FLAGS = tuple(
    Flag(*row)
    for row in (
        ("bell", "", NONE, "", MEANINGLESS, "no bell rings"),
        ("immediate", "I", OPTIONAL, "", TRANSLATED, "fails if it does not start in that time"),
        ("kill-command", "K", OPTIONAL, "", MEANINGLESS, "the command ends with its job anyway"),
        ("no-bell", "", NONE, "", MEANINGLESS, "no bell rings"),
        ("no-shell", "", NONE, "", REFUSED, "a job is what runs in it: sbatch --wrap 'sleep 8h', and tgpu exec"),
    )
)  # fmt: skip
_NOT_OF_ALLOCATIONS = frozenset({"array", "wrap", "parsable", "ignore-pbs", "requeue", "no-requeue", "batch",
                                 "output", "error", "input", "open-mode", "export-file", "wait"})  # fmt: skip
ALLOCATION_KNOWN = Options(
    [*(flag for flag in FLAGS if flag.name not in _NOT_OF_ALLOCATIONS), *ALLOCATION_FLAGS],
    {"tasks": "ntasks", "workdir": "chdir"},
)
