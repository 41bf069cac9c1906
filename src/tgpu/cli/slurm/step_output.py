"""Where the tasks of a step print: with `srun` itself, behind labels, or into files of their own."""

from __future__ import annotations

import os
import re
import sys
from threading import Lock

from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from tgpu.dialects.slurm.step_plan import Step, Task

_LONGEST = 1 << 16
_SIGN = re.compile(r"%(\d*)([a-zA-Z%])")


class StepOutput:
    def __init__(self, said: dict[str, str | None], step: Step, step_id: int) -> None:
        self._said, self._step, self._id = said, step, step_id
        self._label = "label" in said
        self._in_lines = self._label or ("unbuffered" not in said and len(step.tasks) > 1)
        """Whether what several tasks print at once is kept from running into each other."""
        self._rest: dict[tuple[int, str], bytes] = {}
        self._open: dict[str, int] = {}
        self._lock = Lock()

    @property
    def is_heard(self) -> bool:
        """Whether what tasks of this node print passes through here."""
        return self._in_lines

    def files_of(self, task: Task) -> dict[str, int]:
        """Descriptors for a task of this node. Only the first one hears what is typed."""
        files = {"stdin": sys.stdin.fileno()} if task.rank == 0 and not self._said.get("input") else {}
        if (path := self._said.get("input")) and path not in ("none", "all"):
            files["stdin"] = self._opened(self._named(path, task), os.O_RDONLY)
        for stream, option in (("stdout", "output"), ("stderr", "error")):
            descriptor = self._file(task, option)
            if descriptor is None and stream == "stderr":
                descriptor = self._file(task, "output")
            if descriptor is not None:
                files[stream] = descriptor
        return files

    def _file(self, task: Task, option: str) -> int | None:
        name = self._said.get(option)
        if name is None or name in ("all", "none"):
            return self._opened(os.devnull, os.O_WRONLY) if name == "none" else None
        how = os.O_APPEND if self._said.get("open-mode", "")[:1] == "a" else os.O_TRUNC | os.O_APPEND  # type: ignore[index]
        return self._opened(self._named(name, task), os.O_WRONLY | os.O_CREAT | how)

    def _opened(self, path: str, flags: int) -> int:
        """Once, for all tasks that share it."""
        if path not in self._open:
            try:
                self._open[path] = os.open(path, flags | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise SlurmError(f"{path} cannot be opened: {error.strerror}") from None
        return self._open[path]

    def _named(self, name: str, task: Task) -> str:
        job = os.environ.get("SLURM_JOB_ID", "0")
        values = {
            "%": "%", "j": job, "J": f"{job}.{self._id}", "s": str(self._id), "t": str(task.rank),
            "n": str(task.node_rank), "N": self._step.names[task.node_rank],
            "u": os.environ.get("SLURM_JOB_USER", ""), "x": os.environ.get("SLURM_JOB_NAME", ""),
            "A": os.environ.get("SLURM_ARRAY_JOB_ID", job), "a": os.environ.get("SLURM_ARRAY_TASK_ID", "0"),
        }  # fmt: skip

        def value(match: re.Match[str]) -> str:
            found = values.get(match[2], match[0])
            return found.zfill(int(match[1] or 0)) if found.isdigit() else found

        return os.path.join(self._said.get("chdir") or "", _SIGN.sub(value, name))  # noqa: PTH118  as it was said

    def told(self, rank: int, stream: str, data: bytes) -> None:
        """Whole lines, with labels each behind its task's rank."""
        with self._lock:
            text = self._rest.get((rank, stream), b"") + data
            end = text.rfind(b"\n") + 1
            if not self._label:  # what draws itself anew is shown while it does, and no line is kept for ever
                end = max(end, text.rfind(b"\r") + 1, len(text) if len(text) > _LONGEST else 0)
            self._rest[rank, stream] = text[end:]
            if end:
                self._write(stream, self._labelled(rank, text[:end]))

    def _labelled(self, rank: int, lines: bytes) -> bytes:
        if not self._label:
            return lines
        width = len(str(max(0, len(self._step.tasks) - 1)))
        prefix = f"{rank:{width}}: ".encode()
        return b"".join(prefix + line + b"\n" for line in lines.split(b"\n")[:-1])

    def told_from_afar(self, rank: int, stream: str, data: bytes) -> None:
        task = self._step.tasks[rank]
        descriptor = self.files_of(task).get(stream) if self._said.get("output") else None
        if descriptor is not None:
            os.write(descriptor, data)
        elif self._in_lines:
            self.told(rank, stream, data)
        else:
            with self._lock:
                self._write(stream, data)

    def finish(self) -> None:
        """Lines that nobody ended."""
        for (rank, stream), rest in list(self._rest.items()):
            if rest:
                self._write(stream, self._labelled(rank, rest + b"\n") if self._label else rest)

    @staticmethod
    def _write(stream: str, data: bytes) -> None:
        target = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
        target.write(data)
        target.flush()
