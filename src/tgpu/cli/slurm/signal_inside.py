"""Sends a signal to processes of the job that it runs in: `scancel --signal` starts it there."""

from __future__ import annotations

import contextlib
import os
import sys

from tgpu.runner.tree import descendants

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable

STEPS, BATCH, FULL = "steps", "batch", "full"
_OURS = b"tgpu.cli.slurm"
"""In the command line of what only stands between a script and its tasks, and would die of a signal."""


class Process:
    def __init__(self, pid: int, parent: int, argv: bytes, environ: Iterable[bytes]) -> None:
        self.pid, self.parent = pid, parent
        self.is_ours = _OURS in argv
        said = set(environ)
        self.in_step = any(each.startswith(b"SLURM_STEP_ID=") for each in said)
        self.is_script = not self.in_step and f"SLURM_TASK_PID={pid}".encode() in said


def meant(processes: list[Process], which: str) -> list[int]:
    """Of steps, their tasks; of the batch, the script alone; in full, all that is not tgpu's own."""
    if which == BATCH:
        return [process.pid for process in processes if process.is_script]
    if which == FULL:
        return [process.pid for process in processes if not process.is_ours]
    in_steps = {process.pid for process in processes if process.in_step}
    return [process.pid for process in processes if process.in_step and process.parent not in in_steps]


def main() -> int:
    """Prints how many processes get it, before they do: a job that ends by it takes this process along."""
    number, which = int(sys.argv[1]), sys.argv[2]
    pids = [pid for pid in descendants(os.getppid()) if pid != os.getpid()]
    receivers = meant([found for pid in pids if (found := _process(pid)) is not None], which)
    print(len(receivers), flush=True)
    for pid in receivers:
        with contextlib.suppress(OSError):  # it is gone
            os.kill(pid, number)
    return 0


def _process(pid: int) -> Process | None:
    try:
        parent = int(_read(pid, "stat").rpartition(b")")[2].split()[1])
        return Process(pid, parent, _read(pid, "cmdline"), _read(pid, "environ").split(b"\0"))
    except OSError:  # it is gone, or of another user
        return None


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123  pathlib is slow to start
        return file.read()
