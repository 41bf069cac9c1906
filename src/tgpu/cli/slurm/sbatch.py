"""`sbatch`: puts a script into the queue."""

from __future__ import annotations

import sys

from tgpu.cli import once_per_user
from tgpu.cli.slurm import preparing
from tgpu.cli.slurm.main import VERSION, warn
from tgpu.cli.slurm.preparing import Source
from tgpu.cli.snapshot.taking import mode_of, with_snapshots
from tgpu.client import Client, TgpuError
from tgpu.dialects.slurm import script
from tgpu.dialects.slurm.flag_table import KNOWN
from tgpu.dialects.slurm.refusal import SlurmError

_USAGE = "Usage: sbatch [OPTIONS...] SCRIPT [ARGUMENTS...], or sbatch --wrap=COMMAND; see docs/slurm.md"


def main(argv: list[str]) -> int:
    options, words = KNOWN.read(argv)
    said = dict(options)
    if {"help", "usage"} & said.keys():
        print(_USAGE)
        return 0
    if "version" in said:
        print(VERSION)
        return 0
    if ":" in words:
        raise SlurmError("jobs of several parts are written as groups: see docs/gangs.md, `groups`")
    source, arguments = _source(said, words)
    job = preparing.prepared(source, arguments, argv[: len(argv) - len(words)])
    quiet = job.given.has("quiet")
    for text in [] if quiet else job.warnings:
        warn("sbatch", text)
    with Client() as client:
        try:
            (fields,) = with_snapshots(client, [job.fields], mode_of(None))
            submitted = client.submit(**fields)
        except TgpuError as error:
            if not error.problem:
                raise
            detail = f"Batch job submission failed: {error}"
            raise TgpuError(error.status, error.title, detail, error.problem) from None
        job_id = int(submitted["job_id"])
        once_per_user.tell(submitted.get("tmp_note", ""), quiet=quiet, say=lambda text: warn("sbatch", text))
        if job.given.has("parsable"):
            print(job_id)
        elif not quiet:
            print(f"Submitted batch job {job_id}")
        return _waited(client, job_id) if job.given.has("wait") else 0


def _source(said: dict[str, str | None], words: list[str]) -> tuple[Source, list[str]]:
    command = said.get("wrap")
    if command is not None:
        if words:
            raise SlurmError(f"--wrap is the whole job: leave out {words[0]!r}, or --wrap")
        return Source("wrap", "", script.wrapped(command)), []
    if words:
        return Source.of_file(preparing.found(words[0], said.get("chdir"))), words[1:]
    return Source("sbatch", "", script.text_of("standard input", sys.stdin.buffer.read())), []


def _waited(client: Client, job_id: int) -> int:
    """The script's exit code; 1 if a signal ended it."""
    sys.stdout.flush()
    (job,) = client.wait(job_id)
    if job["status"] == "completed":
        return 0
    return int(job.get("exit_code") or 1)
