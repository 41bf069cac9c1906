"""The options of `srun` beside those that it shares with `sbatch`, and what becomes of them."""

from __future__ import annotations

from tgpu.dialects.slurm.flag_table import FLAGS, HONOURED, MEANINGLESS, REFUSED, TRANSLATED, Flag
from tgpu.dialects.slurm.options import NONE, OPTIONAL, VALUE, Options

_OWN = "steps are the job's own processes"
STEP_FLAGS = tuple(
    Flag(*line)
    for line in (
        ("accel-bind", "", VALUE, "", MEANINGLESS, "--gpus-per-task gives each task its own"),
        ("bcast", "", OPTIONAL, "", REFUSED, "put the program where all nodes find it"),
        ("bcast-exclude", "", VALUE, "", MEANINGLESS, "nothing is copied to nodes"),
        ("compress", "", OPTIONAL, "", MEANINGLESS, "nothing is copied to nodes"),
        ("cpu-bind", "", VALUE, "", MEANINGLESS, "where tasks run inside a node is left to the kernel"),
        ("disable-status", "X", NONE, "", MEANINGLESS, _OWN),
        ("epilog", "", VALUE, "", REFUSED, "call it in the script"),
        ("exact", "", NONE, "", MEANINGLESS, "a step has what it asks for anyway"),
        ("het-group", "", VALUE, "", REFUSED, "jobs of several parts are written as groups"),
        ("immediate", "I", OPTIONAL, "", TRANSLATED, "outside of a job: fails if it does not start in that time"),
        ("jobid", "", VALUE, "", TRANSLATED, "the job that it is in; any other is refused: tgpu exec"),
        ("kill-on-bad-exit", "K", OPTIONAL, "", HONOURED, ""),
        ("label", "l", NONE, "", HONOURED, ""),
        ("mpi", "", VALUE, "", MEANINGLESS, "tasks get SLURM_PROCID and the like; MPI has mpirun"),
        ("msg-timeout", "", VALUE, "", MEANINGLESS, _OWN),
        ("multi-prog", "", NONE, "", REFUSED, "look at SLURM_PROCID in a script"),
        ("no-allocate", "Z", NONE, "", REFUSED, "nothing runs outside of jobs"),
        ("overlap", "", NONE, "", HONOURED, "does not wait for CPUs and GPUs that other steps have"),
        ("preserve-env", "E", NONE, "", MEANINGLESS, "the job's own numbers are SLURM_JOB_NUM_NODES and the like"),
        ("prolog", "", VALUE, "", REFUSED, "call it in the script"),
        ("pty", "", OPTIONAL, "", HONOURED, "task 0"),
        ("quit-on-interrupt", "", NONE, "", MEANINGLESS, "the first Ctrl-C ends it anyway"),
        ("relative", "r", VALUE, "", HONOURED, ""),
        ("send-libs", "", OPTIONAL, "", MEANINGLESS, "nothing is copied to nodes"),
        ("slurmd-debug", "", VALUE, "", MEANINGLESS, _OWN),
        ("task-epilog", "", VALUE, "", REFUSED, "call it in the script"),
        ("task-prolog", "", VALUE, "", REFUSED, "call it in the script"),
        ("threads", "T", VALUE, "", MEANINGLESS, _OWN),
        ("unbuffered", "u", NONE, "", HONOURED, "without it, lines of several tasks are kept whole"),
    )
)  # fmt: skip
_NOT_OF_STEPS = frozenset({"array", "wrap", "parsable", "ignore-pbs", "wait-all-nodes", "requeue",
                           "no-requeue", "batch", "get-user-env", "export-file", "wait"})  # fmt: skip
STEP_KNOWN = Options(
    [*(flag for flag in FLAGS if flag.name not in _NOT_OF_STEPS), *STEP_FLAGS, Flag(
        "wait", "W", VALUE, "", MEANINGLESS, "a step ends when its tasks do; --kill-on-bad-exit ends it earlier")],
    {"tasks": "ntasks", "workdir": "chdir"},
)  # fmt: skip
