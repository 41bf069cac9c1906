"""On every other node of a job on several: carries out its tasks of the steps that the script asks for."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from threading import Lock, Thread

from tgpu.cli.slurm import step_wire
from tgpu.cli.slurm.local_tasks import LocalTasks

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import Any, BinaryIO

_PATIENCE_S = 120.0
_PAUSE_S = 0.1
_ASK_S = 2.0
_OVER = ("completed", "failed", "cancelled")
_LOOK_S = 0.02
_OF_NODES = ("CUDA_VISIBLE_DEVICES", "SLURMD_NODENAME", "SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS", "HOSTNAME",
             "SLURM_TOPOLOGY_ADDR", "TGPU_TASK_INDEX", "TMPDIR", "TGPU_CHECKPOINT_DIR")  # fmt: skip
"""What is this node's own, whatever the script has."""


def main() -> None:
    """Until the first node is gone: with its script the job is over. Not when it is told to end: so are its
    tasks, which may have something to save."""
    key, address = step_wire.key_of(os.environ), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    lines = _called(address, key)
    signal.signal(signal.SIGTERM, lambda *_: None)
    while (asked := step_wire.read_line(lines)) is not None:
        Thread(target=_carry_out, args=(address, key, str(asked["open"])), daemon=True).start()
    sys.exit(0)


def _called(address: tuple[str, int], key: bytes) -> BinaryIO:
    """The desk may not be there yet, for all start at the same time; or not any more: a script may be over
    before its other nodes have begun, and then nothing is left to do."""
    began = time.monotonic()
    ask_at = began + _ASK_S
    while True:
        try:
            return step_wire.call(address, key, {"node": int(os.environ["NODE_RANK"])})[1]
        except OSError as error:
            now = time.monotonic()
            if now >= ask_at and _script_is_over():
                sys.exit(0)
            if now > began + _PATIENCE_S:
                sys.exit(f"the job's first node cannot be reached at {address[0]}:{address[1]}: {error}")
            ask_at = ask_at if now < ask_at else now + _ASK_S
            time.sleep(_PAUSE_S)


def _script_is_over() -> bool:
    """As the servers know it; who cannot ask them goes on calling."""
    from tgpu.client import Client, TgpuError  # noqa: PLC0415  hardly ever needed

    try:
        with Client(timeout=_ASK_S) as client:
            tasks = client.tasks(int(os.environ["TGPU_JOB_ID"]))
            return any(task["task_index"] == 0 and task["status"] in _OVER for task in tasks)
    except (TgpuError, OSError):
        return False


def _carry_out(address: tuple[str, int], key: bytes, ticket: str) -> None:
    sock, lines = step_wire.call(address, key, {"ticket": ticket})
    asked = step_wire.read_line(lines)
    if asked is not None:
        _Step(sock, lines).run(asked)
    with sock, contextlib.suppress(OSError):  # an `srun` that was killed has hung up already
        sock.shutdown(socket.SHUT_RDWR)  # whoever still reads from it hears that it is over


class _Step:
    def __init__(self, sock: socket.socket, lines: BinaryIO) -> None:
        self._sock, self._lines, self._lock = sock, lines, Lock()
        self._tasks = LocalTasks(self._tell)

    def run(self, asked: dict[str, Any]) -> None:
        own = {name: os.environ[name] for name in _OF_NODES if name in os.environ}
        cwd = str(asked["cwd"])
        for task in asked["tasks"]:
            env = {**asked["env"], **own, **task["env"]}
            if asked["gpus"] is not None:
                from tgpu.dialects.slurm import step_gpus  # noqa: PLC0415  only who names some

                visible = own.get("CUDA_VISIBLE_DEVICES", "").split(",")
                places = [int(place) for place in asked["gpus"]]
                devices = [visible[place] for place in places if place < len(visible)]
                step_id = task["env"]["SLURM_STEP_ID"]
                binding = step_gpus.Binding(asked["gpus_per_task"], asked.get("tasks_per_gpu"))
                env |= step_gpus.variables(devices, task["local"], binding, step_id)
            self._tasks.start(task["rank"], asked["argv"], env, cwd, {})
        for rank, (code, why) in self._tasks.failed.items():
            self._tell(rank, "stderr", f"{why}\n".encode())
            self._send(step_wire.frame(step_wire.END, rank, code=code))
        self._tasks.read()
        Thread(target=self._listen, daemon=True).start()
        while self._tasks.live:
            for rank, code in self._tasks.ended():
                self._send(step_wire.frame(step_wire.END, rank, code=code))
            time.sleep(_LOOK_S)

    def _listen(self) -> None:
        """Signals; and if `srun` is gone, so is the step."""
        try:
            while (said := step_wire.read_line(self._lines)) is not None:
                self._tasks.send(int(said["signal"]))
        except (OSError, ValueError):
            pass
        self._tasks.kill()

    def _tell(self, rank: int, stream: str, data: bytes) -> None:
        self._send(step_wire.frame(step_wire.STREAMS[stream], rank, data))

    def _send(self, data: bytes) -> None:
        try:
            with self._lock:
                self._sock.sendall(data)
        except OSError:
            self._tasks.kill()
