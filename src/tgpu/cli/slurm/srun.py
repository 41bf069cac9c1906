"""`srun`: inside a job, runs a step of it; outside, submits a job, shows its output and ends as it does."""

from __future__ import annotations

import os

from tgpu.cli.slurm.main import VERSION, warn
from tgpu.dialects.slurm.array_ids import parted
from tgpu.dialects.slurm.flag_table import MEANINGLESS, REFUSED
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.dialects.slurm.step_flag_table import STEP_FLAGS, STEP_KNOWN
from tgpu.dialects.slurm.step_gpus import NAMING

_INPUT = {
    "SLURM_CPUS_PER_TASK": "cpus-per-task",
    "SRUN_CPUS_PER_TASK": "cpus-per-task",
    "SLURM_GPUS_PER_TASK": "gpus-per-task",
    "SLURM_NTASKS_PER_GPU": "ntasks-per-gpu",
    "SLURM_LABELIO": "label",
    "SLURM_OVERCOMMIT": "overcommit",
    "SLURM_KILL_BAD_EXIT": "kill-on-bad-exit",
    "SLURM_WORKING_DIR": "chdir",
}
"""What a step takes from the job that it is in, unless it says so itself."""


def main(argv: list[str]) -> int:
    options, words = STEP_KNOWN.read(argv)
    said = dict(options)
    if {"help", "usage"} & said.keys():
        print("Usage: srun [OPTIONS...] PROGRAM [ARGUMENTS...]; see docs/slurm.md")
        return 0
    if "version" in said:
        print(VERSION)
        return 0
    if not words:
        raise SlurmError("say what to run, such as srun -n 4 python train.py")
    if ":" in words:
        raise SlurmError("steps of several parts are run one after the other, or with & and wait")
    for flag in STEP_FLAGS:
        if flag.name in said and flag.fate == REFUSED:
            raise SlurmError(f"--{flag.name} cannot be had here: {flag.note}")
        if (
            flag.name in said
            and flag.fate == MEANINGLESS
            and "quiet" not in said
            and flag.name not in _COMMON
        ):
            warn("srun", f"--{flag.name} has no effect: {flag.note}")
    if _is_in_a_job():
        from tgpu.cli.slurm import stepping  # noqa: PLC0415  only one of the two is needed

        return stepping.run(said, _inherited(said), words)
    if "jobid" in said:
        raise SlurmError("--jobid: `tgpu exec JOB -- PROGRAM` runs something inside another job")
    from tgpu.cli.slurm import allocating  # noqa: PLC0415

    return allocating.run(argv[: len(argv) - len(words)], said, words)


def _is_in_a_job() -> bool:
    """Not if the variables of one have only been passed on to another job."""
    own = os.environ.get("SLURM_JOB_ID", "")
    return own.isdigit() and str(parted(int(own))[0]) == os.environ.get("TGPU_JOB_ID")


_COMMON = frozenset({"mpi", "cpu-bind", "unbuffered", "exact", "wait", "accel-bind"})
"""Scripts that run everywhere have these, and a job's output is no place to hear of it each time."""


def _inherited(said: dict[str, str | None]) -> dict[str, str | None]:
    found: dict[str, str | None] = {
        name: os.environ[variable]
        for variable, name in _INPUT.items()
        if variable in os.environ and name not in said
    }
    if any(name in said for name in NAMING) or "SLURM_GPUS_ON_NODE" not in os.environ:
        for name in ("gpus-per-task", "ntasks-per-gpu"):  # the step says it itself, or the job has no GPUs
            found.pop(name, None)
    return found
