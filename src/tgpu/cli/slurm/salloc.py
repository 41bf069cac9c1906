"""`salloc`: a job whose only program is a shell, or a command, on the first of its nodes."""

from __future__ import annotations

import os
import shlex
import sys

from tgpu.cli.slurm import allocating, preparing
from tgpu.cli.slurm.main import VERSION, warn
from tgpu.dialects.slurm.allocation_flag_table import ALLOCATION_FLAGS, ALLOCATION_KNOWN
from tgpu.dialects.slurm.flag_table import MEANINGLESS, REFUSED
from tgpu.dialects.slurm.refusal import SlurmError

_SCRIPT = """\
#!/bin/sh
{greeting}
exec {command}
"""


def main(argv: list[str]) -> int:
    options, words = ALLOCATION_KNOWN.read(argv)
    said = dict(options)
    if {"help", "usage"} & said.keys():
        print("Usage: salloc [OPTIONS...] [COMMAND [ARGUMENTS...]]; see docs/slurm.md")
        return 0
    if "version" in said:
        print(VERSION)
        return 0
    for flag in ALLOCATION_FLAGS:
        if flag.name in said and flag.fate == REFUSED:
            raise SlurmError(f"--{flag.name} cannot be had here: {flag.note}")
        if flag.name in said and flag.fate == MEANINGLESS and "quiet" not in said:
            warn("salloc", f"--{flag.name} has no effect: {flag.note}")
    pty = sys.stdin.isatty() and sys.stdout.isatty()
    if not words and not pty:
        raise SlurmError(
            "there is no terminal for a shell: say what to run, such as salloc -n 4 srun hostname"
        )
    command = shlex.join(words or [os.environ.get("SHELL") or "/bin/sh"])
    greeting = "" if "quiet" in said else 'echo "salloc: Granted job allocation $SLURM_JOB_ID" >&2'
    source = preparing.Source("interactive", "", _SCRIPT.format(greeting=greeting, command=command))
    job = preparing.prepared(source, [], [], allocating.shared(said), directives=False)
    return allocating.carried_out("salloc", job, said, pty=pty)
