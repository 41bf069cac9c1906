"""Signals as people write them: by name, with or without SIG, or by number."""

import signal
from dataclasses import dataclass

from tgpu.domain.quantities import MAX_SECONDS, BadQuantityError, whole

TERM = "TERM"
WARN_S = 60
"""How long before the time limit one is warned that does not say, as in Slurm."""
_REFUSED = frozenset({"KILL", "STOP", "TSTP", "TTIN", "TTOU"})
"""No program can catch the first two, and the others would only make it stand still."""
_NAMES = {name.removeprefix("SIG"): each.value for name, each in signal.Signals.__members__.items()}
_EXAMPLES = "TERM, INT, HUP, USR1 or USR2"


@dataclass(frozen=True, slots=True)
class Warn:
    """A signal some time before a task's time limit, once."""

    signal: str
    """Its name, without SIG: as the task's own node numbers it."""
    before_s: int
    main: bool = False
    """To the task's main process alone, instead of all of its processes."""

    def __str__(self) -> str:
        return f"{'main:' if self.main else ''}{self.signal}@{self.before_s}"


def signal_name(name: str, value: str) -> str:
    """`sigusr1`, `USR1` and `10` → `USR1`. `name` leads the words of an error."""
    text = value.strip().upper()
    found = _by_number(text) if text.isdigit() else text.removeprefix("SIG")
    if found not in _NAMES:
        raise BadQuantityError(f"{name} must be a signal, such as {_EXAMPLES}; got {value!r}")
    if found in _REFUSED:
        raise BadQuantityError(
            f"{name} cannot be {found}, which a program cannot use to save its work: take {_EXAMPLES}"
        )
    return found


def _by_number(text: str) -> str:
    return next((each for each, number in _NAMES.items() if str(number) == text), "")


def signal_number(name: str) -> int:
    """On this machine. Of a name that it does not know, SIGTERM's: whoever is to end is told so."""
    return _NAMES.get(name, _NAMES[TERM])


def warning_parts(name: str, text: str) -> tuple[str, int | None, bool]:
    """`[main:]SIGNAL[@SECONDS]`, and Slurm's `B:` for `main:`: the signal, how long before if that is said,
    and whether only the main process gets it."""
    whom, colon, rest = text.rpartition(":")
    if colon and whom.lower() not in ("main", "b"):
        raise BadQuantityError(
            f"{name} takes main: (or B:) in front of the signal, or nothing there; got {text!r}"
        )
    said, at, before = rest.partition("@")
    if at and not (before.isascii() and before.isdigit()):
        raise BadQuantityError(f"{name} must be written as SIGNAL@SECONDS, such as USR1@90; got {text!r}")
    return signal_name(name, said), whole(name, before, MAX_SECONDS) if at else None, bool(colon)
