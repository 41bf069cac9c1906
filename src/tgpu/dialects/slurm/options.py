"""Reads options as GNU's getopt_long does: `-N2`, `-N 2`, `-rh`, `--nodes=2`, `--nodes 2`, `--nod 2`."""

from __future__ import annotations

from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NONE, VALUE, OPTIONAL = "none", "value", "optional"
_ALIKE = 0.7  # below, a guess is worse than none


class Option:
    """One option: its long name, its letter (or none), and whether it takes a value."""

    __slots__ = ("letter", "name", "takes")

    def __init__(self, name: str, letter: str = "", takes: str = VALUE) -> None:
        self.name, self.letter, self.takes = name, letter, takes


class Options:
    """What a program knows. `aliases`: other names for some, such as `workdir` for `chdir`."""

    def __init__(self, options: Iterable[Option], aliases: Mapping[str, str] | None = None) -> None:
        self.by_name = {option.name: option for option in options}
        self.by_letter = {option.letter: option for option in self.by_name.values() if option.letter}
        self.aliases = dict(aliases or {})

    def read(
        self, words: Sequence[str], *, mixed: bool = False
    ) -> tuple[list[tuple[str, str | None]], list[str]]:
        """Each option by its long name with its value, in order; and the words that are none. Unless `mixed`,
        the first word that is no option ends them: it is a program, and the rest is its own."""
        found: list[tuple[str, str | None]] = []
        rest: list[str] = []
        at = 0
        while at < len(words):
            word = words[at]
            at += 1
            if word == "--":
                return found, rest + list(words[at:])
            if word.startswith("--"):
                at += self._long(word[2:], words[at:], found)
            elif word.startswith("-") and word != "-":
                at += self._letters(word[1:], words[at:], found)
            elif mixed:
                rest.append(word)
            else:
                return found, [word, *words[at:]]
        return found, rest

    def _long(self, text: str, following: Sequence[str], found: list[tuple[str, str | None]]) -> int:
        """How many more words it took."""
        name, equals, value = text.partition("=")
        option = self.called(name)
        if option.takes == NONE:
            if equals:
                raise SlurmError(f"--{option.name} takes no value; got {value!r}")
            found.append((option.name, None))
        elif equals:
            found.append((option.name, value))
        elif option.takes == OPTIONAL:
            found.append((option.name, None))
        elif following:
            found.append((option.name, following[0]))
            return 1
        else:
            raise SlurmError(f"--{option.name} needs a value, such as --{option.name}=…")
        return 0

    def _letters(self, text: str, following: Sequence[str], found: list[tuple[str, str | None]]) -> int:
        for at, letter in enumerate(text):
            option = self.by_letter.get(letter)
            if option is None:
                raise SlurmError(f"-{letter} is no option of Slurm's; --help lists those that there are")
            value = text[at + 1 :].removeprefix("=")
            if option.takes == NONE:
                found.append((option.name, None))
                continue
            if value or option.takes == OPTIONAL:
                found.append((option.name, value or None))
                return 0
            if not following:
                raise SlurmError(f"-{letter} needs a value")
            found.append((option.name, following[0]))
            return 1
        return 0

    def called(self, name: str) -> Option:
        """By its name, or the beginning of it if only one begins like that."""
        name = self.aliases.get(name, name)
        if name in self.by_name:
            return self.by_name[name]
        near = [other for other in self.by_name if name and other.startswith(name)]
        if len(near) == 1:
            return self.by_name[near[0]]
        if near:
            raise SlurmError(
                f"--{name} could be {', '.join(f'--{other}' for other in sorted(near))}: say which"
            )
        raise SlurmError(f"--{name} is no option of Slurm's{self._did_you_mean(name)}")

    def _did_you_mean(self, name: str) -> str:
        from difflib import get_close_matches  # noqa: PLC0415  only a slip needs it

        near = get_close_matches(name, self.by_name, n=1, cutoff=_ALIKE)
        return f"; did you mean --{near[0]}?" if near else "; take it out, or correct it"


def named(values: str, flags: str, optional: str = "", aliases: Mapping[str, str] | None = None) -> Options:
    """Options as words, each with its letter behind a comma if it has one: `format,o`."""
    found = [
        Option(*word.partition(",")[::2], takes)
        for text, takes in ((values, VALUE), (flags, NONE), (optional, OPTIONAL))
        for word in text.split()
    ]
    return Options(found, aliases)
