"""`tgpu submit job.sh` of a script that has `#SBATCH` lines: what those say, under what the flags say."""

from __future__ import annotations

from pathlib import Path

from tgpu.cli.exits import UsageError
from tgpu.cli.screen import note
from tgpu.cli.slurm import preparing
from tgpu.dialects.slurm import script
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

_HEAD_BYTES = 1 << 16
_OF_LAYOUT = {
    "nodes": "nodes",
    "ntasks": "ntasks",
    "ntasks_per_node": "ntasks-per-node",
    "gpus_per_node": "gpus-per-node",
}
"""Flags that say how a job is laid out: by them the rest of it is counted anew."""


def is_one(words: list[str]) -> bool:
    path = Path(words[0])
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return script.is_one(file.read(_HEAD_BYTES))


def fields(args: Namespace) -> dict[str, Any]:
    """The job that the script describes. Flags about its layout are taken in, and not said again."""
    more = [
        (name, getattr(args, dest)) for dest, name in _OF_LAYOUT.items() if getattr(args, dest) is not None
    ]
    try:
        source = preparing.Source.of_file(Path(args.words[0]))
        job = preparing.prepared(source, args.words[1:], [], more)
    except SlurmError as error:
        raise UsageError(str(error)) from None
    for text in job.warnings:
        note(text)
    if args.time is not None and args.time.strip().isdigit():
        bare = args.time.strip()
        note(f"--time {bare} is {bare} seconds here, unlike `#SBATCH --time`: for minutes say --time {bare}m")
    for dest in _OF_LAYOUT:
        setattr(args, dest, None)
    if args.export_env is None:
        args.export_env = False  # it is in the job already, as --export has it
    return job.fields
