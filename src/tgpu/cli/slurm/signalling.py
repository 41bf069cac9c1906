"""`scancel --signal=USR1`: a signal to what runs in a job, which goes on."""

from __future__ import annotations

import signal
import sys

from tgpu.cli.slurm.signal_inside import BATCH, FULL, STEPS
from tgpu.client.terminal import Output, Over, Terminal
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from tgpu.client import Client

_PROGRAM = "import sys; from tgpu.cli.slurm.signal_inside import main; sys.exit(main())"


def number_of(text: str) -> int:
    """`USR1`, `SIGUSR1` or `10`."""
    name = text.upper().removeprefix("SIG")
    known = {each.name.removeprefix("SIG"): each.value for each in signal.Signals}
    number = int(name) if name.isdigit() else known.get(name, 0)
    if number not in known.values():
        raise SlurmError(f"--signal={text} is no signal: take one such as USR1, USR2, INT, TERM or KILL")
    return number


def send(
    client: Client,
    job_id: int,
    indices: Collection[int] | None,
    number: int,
    options: Mapping[str, str | None],
) -> None:
    """To the tasks of its steps; with `--batch` to the script alone, with `--full` to everything."""
    which = FULL if "full" in options else BATCH if "batch" in options else STEPS
    running = [
        task
        for task in client.tasks(job_id, status="running")
        if indices is None or task.get("array_index") in indices
    ]
    if not running:
        raise SlurmError(
            f"job {job_id} does not run: only what runs can be sent {signal.Signals(number).name}"
        )
    sent = sum(_sent(client, job_id, _place(task), number, which) for task in running)
    if not sent and which == STEPS:
        told = (
            f"job {job_id} has no steps now: say --batch to reach its script, or --full to reach everything"
        )
        print(f"scancel: {told}", file=sys.stderr)


def _place(task: Mapping[str, Any]) -> int:
    """As `tgpu exec 42.7` names it: of an array by its index."""
    index = task.get("array_index")
    return int(task["task_index"] if index is None else index)


def _sent(client: Client, job_id: int, task: int, number: int, which: str) -> int:
    """How many processes have got it, on the node of one task."""
    command = [sys.executable, "-P", "-c", _PROGRAM, str(number), which]
    printed = b""
    with Terminal(client.session, job_id, command, task=task) as inside:
        inside.end_input()
        while True:
            for said in inside.hear():
                if isinstance(said, Output):
                    printed += said.data
                elif isinstance(said, Over):
                    return _count(job_id, printed, said)


def _count(job_id: int, printed: bytes, over: Over) -> int:
    """However it ended: a job that ends by the signal ends what runs inside it, too."""
    if printed.strip().isdigit():
        return int(printed)
    last = printed.decode(errors="replace").strip().rpartition("\n")[2]
    raise SlurmError(
        f"job {job_id} could not be sent a signal: {over.detail or last or 'tgpu is not on its node'}"
    )
