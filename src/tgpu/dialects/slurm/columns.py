"""Tables as `squeue` and `sinfo` print them: `%.18i %9P|%j` and `JobID:10,State:.8`."""

from __future__ import annotations

import re

from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    Column = tuple[str, Callable[[Any], str]]

_FIELD = re.compile(r"%(\.?)(\d*)([A-Za-z])")
_LONG = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)(?::(\.?)(\d*)(.*))?")
_LONG_WIDTH = 20


class Field:
    """One column. `width`: 0 is as wide as need be; what is longer is cut, as Slurm does it."""

    def __init__(self, column: Column, width: int, suffix: str, *, right: bool) -> None:
        self.title, self.value = column
        self.width, self.suffix, self.right = width, suffix, right

    def text(self, said: str) -> str:
        if self.width:
            cut = said[: self.width]
            said = cut.rjust(self.width) if self.right else cut.ljust(self.width)
        return said + self.suffix


class Table:
    def __init__(self, fields: Sequence[Field], start: str = "") -> None:
        self.fields, self._start = fields, start

    def lines(self, things: Sequence[Any], *, header: bool = True) -> Iterator[str]:
        if header:
            yield self._start + "".join(field.text(field.title) for field in self.fields)
        for thing in things:
            yield self._start + "".join(field.text(field.value(thing)) for field in self.fields)


def short(form: str, columns: Mapping[str, Column]) -> Table:
    """`-o`: text between the fields is printed as it stands."""
    fields, at = [], 0
    found = list(_FIELD.finditer(form))
    for number, match in enumerate(found):
        letter = match[3]
        if letter not in columns:
            raise SlurmError(
                f"-o {form!r}: %{letter} is no field; there are {' '.join(f'%{one}' for one in columns)}"
            )
        end = found[number + 1].start() if number + 1 < len(found) else len(form)
        field = Field(columns[letter], int(match[2] or 0), form[match.end() : end], right=bool(match[1]))
        fields.append(field)
        at = at or match.start()
    return Table(fields, form[: found[0].start()] if found else form)


def long(form: str, columns: Mapping[str, Column]) -> Table:
    """`-O`: names, each 20 wide unless it says."""
    fields = []
    for part in form.split(","):
        match = _LONG.fullmatch(part.strip())
        column = columns.get(match[1].lower()) if match else None
        if match is None or column is None:
            raise SlurmError(f"-O: {part.strip()!r} is no field; there are {', '.join(sorted(columns))}")
        width = int(match[3]) if match[3] else _LONG_WIDTH
        fields.append(Field(column, width, match[4] or "", right=bool(match[2])))
    return Table(fields)
