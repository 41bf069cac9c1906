"""Tables as `sacct` and `sacctmgr` print them: `jobid,state%20`, in columns or with bars in between."""

from __future__ import annotations

import re

from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    Field = tuple[str, int, Callable[[Any], str]]
    """Its title, how wide it is, and what stands there."""

_ITEM = re.compile(r"([A-Za-z]+)(?:%(-?\d+))?")


class Sheet:
    """The columns that were asked for, of the `fields` that there are."""

    def __init__(self, form: str, fields: Mapping[str, Field], hint: str) -> None:
        self._columns = [
            self._column(item, fields, hint) for item in form.replace(" ", "").split(",") if item
        ]

    @staticmethod
    def _column(item: str, fields: Mapping[str, Field], hint: str) -> Field:
        match = _ITEM.fullmatch(item)
        name = match[1].lower() if match else ""
        near = [known for known in fields if name and known.startswith(name)]
        found = fields.get(name) or (fields[near[0]] if near else None)
        if match is None or found is None:
            raise SlurmError(f"{item!r} is no field; {hint}")
        title, width, value = found
        return title, int(match[2]) if match[2] else width, value

    def printed(self, things: Sequence[Any], options: Mapping[str, str | None]) -> Iterator[str]:
        """As `--parsable`, `--parsable2`, `--delimiter` and `--noheader` have it."""
        header = "noheader" not in options
        if {"parsable", "parsable2"} & options.keys():
            between = options.get("delimiter") or "|"
            return self.separated(things, between, header=header, last="parsable2" not in options)
        return self.aligned(things, header=header)

    def aligned(self, things: Sequence[Any], *, header: bool) -> Iterator[str]:
        """Each field as wide as it is said, and a space; what is cut ends with +."""
        if header:
            yield "".join(f"{_fitted(title, width)} " for title, width, _ in self._columns)
            yield "".join(f"{'-' * abs(width)} " for _, width, _ in self._columns)
        for thing in things:
            yield "".join(f"{_fitted(value(thing), width)} " for _, width, value in self._columns)

    def separated(self, things: Sequence[Any], between: str, *, header: bool, last: bool) -> Iterator[str]:
        """`last`: there is one behind the last field, too."""
        end = between if last else ""
        if header:
            yield between.join(title for title, _, _ in self._columns) + end
        for thing in things:
            yield between.join(value(thing) for _, _, value in self._columns) + end


def _fitted(text: str, width: int) -> str:
    size = abs(width)
    if len(text) > size:
        text = f"{text[: size - 1]}+" if size else ""
    return text.ljust(size) if width < 0 else text.rjust(size)
