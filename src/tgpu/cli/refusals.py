"""What is refused in the words of who asked for it: their flag or their key, not the API's field."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tgpu.cli.asking import any_flag_for, flag_for
from tgpu.cli.fields import friendly
from tgpu.client.errors import TgpuError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping, Sized

_LEAD = re.compile(r"(?:jobs\[(?P<index>\d+)\](?:\.|:? ))?(?P<field>[a-z_]+)")


_OTHERS = re.compile(
    r"\b[a-z]+_(?:[a-z]+_)*[a-z]+\b|(?<=: say )(?:image|nodes)\b|(?<= needs )nodes\b|(?<=nodes or )tasks\b"
)
"""Fields that are named later in a sentence: by an underscore, or where one is told to give another."""


@contextmanager
def own_words(args: Namespace, *, of: int = 1, recorded: Sized = ()) -> Iterator[None]:
    """`of` jobs were described, and submitted so often as was asked; `recorded` are those already taken."""
    try:
        yield
    except TgpuError as error:
        match = _LEAD.match(error.detail)
        if not error.problem or match is None:
            raise
        field = match["field"]
        said = flag_for(field, args) or friendly(field)
        where = ""
        if match["index"] and of > 1:
            where = f"job {(len(recorded) + int(match['index'])) % of + 1} of {args.file}: "
        rest = error.detail[match.end() :]
        if args.file is None:
            rest = _OTHERS.sub(lambda other: any_flag_for(other[0]) or other[0], rest)
        detail = f"{where}{said}{rest}"
        raise TgpuError(error.status, error.title, detail, error.problem) from None


@contextmanager
def in_flags(flags: Mapping[str, str]) -> Iterator[None]:
    """`flags`: what is typed for each of the API's fields, of which a refusal names one at its beginning."""
    try:
        yield
    except TgpuError as error:
        match = _LEAD.match(error.detail)
        flag = flags.get(match["field"]) if match else None
        detail = f"{flag}{error.detail[match.end() :]}" if match and flag else error.detail
        detail = detail.replace("`?force=true`", "`--force`").replace("`?take_over=true`", "`--take-over`")
        raise TgpuError(error.status, error.title, detail, error.problem) from None
