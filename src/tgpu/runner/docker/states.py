"""How a container stands or ended, read from its engine's words."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause

_BY_SIGNAL = 128
_REMEMBERED = 256
"""So many events an engine remembers."""
_CRASHED = 255
"""What an engine that finds a container dead when it starts says of it."""
_DEADLY = frozenset(
    {
        signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGABRT, signal.SIGBUS,
        signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGALRM, signal.SIGTERM,
    }
)  # fmt: skip
ENGINE_STOPPED = "the container engine was stopped, and its containers with it"


@dataclass(frozen=True, slots=True)
class State:
    is_running: bool
    was_started: bool
    exit_code: int
    lacked_memory: bool
    """Some process in it was killed for that, at some time; not necessarily its first one, nor at its end."""
    started_ms: int | None
    ended_ms: int

    @classmethod
    def of(cls, inspected: Mapping[str, Any]) -> "State":
        said = inspected["State"]
        started_ms = _time_ms(said.get("StartedAt"))
        return cls(
            is_running=bool(said.get("Running")),
            was_started=started_ms > 0,
            exit_code=int(said.get("ExitCode", 0)),
            lacked_memory=bool(said.get("OOMKilled")),
            started_ms=started_ms or None,
            # Of one that is over at once, engines note the start later than the end.
            ended_ms=max(started_ms, _time_ms(said.get("FinishedAt"))),
        )

    @property
    def signal(self) -> int | None:
        """An exit code alone does not tell whether a signal ended it; by custom these say so."""
        number = self.exit_code - _BY_SIGNAL
        return number if number in _DEADLY else None

    @property
    def looks_struck_down(self) -> bool:
        """As it looks when its engine or its machine ended it, or somebody's signal did."""
        return self.signal in (signal.SIGKILL, signal.SIGTERM) or self.exit_code == _CRASHED

    @property
    def looks_out_of_memory(self) -> bool:
        """As it looks when the kernel ended its first process for that."""
        return self.lacked_memory and self.signal == signal.SIGKILL

    @property
    def was_lost_by_engine(self) -> bool:
        """It was found dead by an engine that had not seen it die."""
        return self.exit_code == _CRASHED


def exit_of(
    state: State, stop: tuple[Cause, str] | None, memory_limit_mib: int, infrastructure: Exit | None
) -> Exit:
    """`stop`: why it was told to end, if it was. `infrastructure`: what struck it down, if something did."""
    number = state.signal
    ended = Exit(
        Cause.EXITED if number is None else Cause.SIGNALLED,
        exit_code=state.exit_code if number is None else None,
        signal=number,
        started_ms=state.started_ms,
        ended_ms=state.ended_ms,
        memory_limit_mib=memory_limit_mib or None,
    )
    if stop is not None:
        return replace(ended, cause=stop[0], detail=stop[1])
    if infrastructure is not None and state.looks_struck_down:
        cause, detail = infrastructure.cause, infrastructure.detail
        return replace(ended, cause=cause, detail=detail, exit_code=None, signal=None)
    if not state.lacked_memory:
        return ended
    if state.looks_out_of_memory:
        detail = f"it used more than its {memory_limit_mib} MiB" if memory_limit_mib else ""
        return replace(ended, cause=Cause.OUT_OF_MEMORY, detail=detail)
    limit = f": its limit is {memory_limit_mib} MiB" if memory_limit_mib else ""
    return replace(ended, detail=f"out of memory, a process in its container was killed{limit}")


def fell_with_its_engine(
    remembered: Sequence[Mapping[str, Any]], name: str, state: State, *, live_restore: bool
) -> bool:
    """Whether the engine that tells of it has not seen it die; or has, but not seen it start: without
    live-restore, an engine that finds containers of an earlier life ends them. What it may have forgotten
    counts for nothing."""
    mine = {
        str(event.get("Action"))
        for event in remembered
        if ((event.get("Actor") or {}).get("Attributes") or {}).get("name") == name
    }
    oldest_ms = min((int(event.get("timeNano", 0)) // 1_000_000 for event in remembered), default=0)
    whole = len(remembered) < _REMEMBERED
    if "die" not in mine:
        return whole or oldest_ms <= state.ended_ms
    return not live_restore and whole and "start" not in mine


def _time_ms(text: object) -> int:
    """Of `2026-01-31T14:05:00.123456789Z`; 0: never."""
    said = str(text or "")
    whole, _, rest = said.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    try:
        moment = datetime.fromisoformat(whole + (rest[len(digits) :] or ("" if digits else "+00:00")))
    except ValueError:
        return 0
    return max(0, int(moment.timestamp()) * 1000 + int(digits.ljust(3, "0")[:3]))
