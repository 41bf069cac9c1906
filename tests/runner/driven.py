"""A real runner of whichever kind on an event loop of its own, which runs only while a test waits."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.runner.port import AttemptEnded, AttemptNoted, AttemptStarted, LaunchSpec, Runner, RunnerEvent


class Driven:
    """So what happens between two waits is deterministic."""

    patience_s = 60.0

    def __init__(self, home: Path, cluster: str) -> None:
        self.home = home
        self.cluster = cluster
        self.loop = asyncio.new_event_loop()
        self.events: list[RunnerEvent] = []
        self.runner: Any = None
        self._number = 0

    def made(self) -> Runner:
        raise NotImplementedError

    def usual(self) -> dict[str, object]:
        """What a spec has that says nothing of it."""
        raise NotImplementedError

    def open(self) -> list[RunnerEvent]:
        self.runner = self.made()
        found = self.wait_for(self.runner.open(self.events.append))
        self.events += found
        return found

    def close(self) -> None:
        if self.runner is not None:
            self.wait_for(self.runner.close())
            self.runner = None

    def wait_for(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def spec(self, *argv: str, **changes: object) -> LaunchSpec:
        self._number += 1
        fields: dict[str, object] = {
            "attempt": f"{self._number}.0.1",
            "argv": argv,
            "cwd": "/",
            "time_limit_s": None,
            "grace_s": 5,
            "log_cap_bytes": 1 << 20,
            **self.usual(),
        }
        return LaunchSpec(**{**fields, **changes})  # type: ignore[arg-type]

    def launch(self, *argv: str, **changes: object) -> str:
        spec = self.spec(*argv, **changes)
        self.runner.launch(spec)
        return spec.attempt

    def shell(self, script: str, **changes: object) -> str:
        return self.launch("sh", "-c", script, **changes)

    def until(self, happened: Callable[[], object], within_s: float | None = None) -> None:
        """Keeps the runner going until it is so."""
        patience_s = self.patience_s if within_s is None else within_s

        async def wait() -> None:
            deadline = time.monotonic() + patience_s
            while not happened():
                assert time.monotonic() < deadline, f"did not happen in {patience_s} s; events: {self.events}"
                await asyncio.sleep(0.005)

        self.wait_for(wait())

    def start_of(self, attempt: str) -> AttemptStarted:
        self.until(lambda: self._find(AttemptStarted, attempt))
        return self._find(AttemptStarted, attempt)[0]

    def has_ended(self, attempt: str) -> bool:
        return bool(self._find(AttemptEnded, attempt))

    def stop_all(self) -> None:
        """So that nothing of a test runs on."""
        started = [event.attempt for event in self.events if isinstance(event, AttemptStarted)]
        for attempt in dict.fromkeys(started):
            if not self.has_ended(attempt):
                self.runner.stop(attempt, Cause.CANCELLED, "", at_once=True)
                self.end_of(attempt)

    def end_of(self, attempt: str, within_s: float | None = None) -> Exit:
        self.until(lambda: self._find(AttemptEnded, attempt), within_s)
        (event,) = self._find(AttemptEnded, attempt)
        return event.exit

    def notes_of(self, attempt: str) -> list[str]:
        return [event.note for event in self._find(AttemptNoted, attempt)]

    def until_printed(self, attempt: str, text: bytes) -> None:
        self.until(lambda: text in self.output(attempt))

    def output(self, attempt: str, stream: str = "stdout", offset: int = 0, most: int = 1 << 28) -> bytes:
        part = self.runner.read_log(attempt, stream, offset, most)
        assert part is not None
        return part.data

    def _find(self, kind: type, attempt: str) -> list:
        return [event for event in self.events if isinstance(event, kind) and event.attempt == attempt]
