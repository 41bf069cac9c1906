"""What was said of a job, and by whom: an option beats the environment, which beats a `#SBATCH` line."""

from __future__ import annotations

from tgpu.dialects.slurm.flag_table import BY_NAME, KNOWN, MEANINGLESS, REFUSED
from tgpu.dialects.slurm.options import NONE
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MEMORY = frozenset({"mem", "mem-per-cpu", "mem-per-gpu"})
# Each of them says the same thing in another way: whoever says one later takes back the others.
_INSTEAD = (
    _MEMORY,
    frozenset({"requeue", "no-requeue"}),
    frozenset({"cpus-per-task", "cpus-per-gpu"}),
)
_YES = ("", "yes", "true")


class Said:
    """A value, and where it stands: for whoever has to be told what is wrong with it."""

    __slots__ = ("value", "where")

    def __init__(self, value: str | None, where: str) -> None:
        self.value, self.where = value, where


class Given:
    """All that was said, the last word of each option."""

    def __init__(self) -> None:
        self._said: dict[str, Said] = {}

    def say(self, name: str, value: str | None, where: str) -> None:
        flag = BY_NAME[name]
        if flag.fate == REFUSED:
            raise SlurmError(f"--{name} cannot be had here: {flag.note}").at(where)
        for group in _INSTEAD:
            if name in group:
                for other in group - {name}:
                    before = self._said.pop(other, None)
                    if before is not None and group is _MEMORY and _source(before.where) == _source(where):
                        raise SlurmError(
                            "--mem, --mem-per-cpu and --mem-per-gpu are mutually exclusive: take out "
                            f"--{other} ({before.where}) or --{name}"
                        ).at(where)
        self._said[name] = Said(value, where)

    def has(self, name: str) -> bool:
        return name in self._said

    def get(self, name: str) -> str | None:
        """Its value, if it was said and has one."""
        said = self._said.get(name)
        return None if said is None else said.value

    def where(self, name: str) -> str:
        return self._said[name].where

    def refuse(self, name: str, why: str) -> SlurmError:
        """An error that says where it stands."""
        return SlurmError(f"--{name} {why}").at(self.where(name))

    def warnings(self) -> list[str]:
        """What is accepted and has no effect."""
        return [
            f"{said.where}: --{name} has no effect: {BY_NAME[name].note}"
            for name, said in self._said.items()
            if BY_NAME[name].fate == MEANINGLESS
        ]


def _source(where: str) -> str:
    """Who said it: the script, the environment or the command line."""
    return "script" if " line " in where else where.partition("_")[0]


def gathered(
    lines: Iterable[tuple[str, Sequence[str]]], environ: Mapping[str, str], words: Sequence[str]
) -> tuple[Given, list[str]]:
    """`lines`: those of the script, each with where it stands. `words`: the command line's; what follows its
    options comes back: the script and its arguments."""
    given = Given()
    for where, line in lines:
        try:
            found, rest = KNOWN.read(line)
        except SlurmError as error:
            raise error.at(where) from None
        if rest:
            raise SlurmError(f"{rest[0]!r} is no option: those begin with - or --").at(where)
        for name, value in found:
            given.say(name, value, where)
    for name, flag in BY_NAME.items():
        if flag.variable and flag.variable in environ:
            value = environ[flag.variable]
            if flag.takes != NONE:
                given.say(name, value or None, flag.variable)
            elif value.lower() in _YES or (value.isdigit() and int(value)):
                given.say(name, None, flag.variable)
    found, rest = KNOWN.read(words)
    for name, value in found:
        given.say(name, value, "command line")
    return given, rest
