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
    from collections.abc import Iterator, Mapping, Sequence, Sized

_LEAD = re.compile(r"(?:jobs\[(?P<index>\d+)\](?:\.|:? ))?(?P<field>[a-z_]+)")


_OTHERS = re.compile(
    r"\b[a-z]+_(?:[a-z]+_)*[a-z]+\b|(?<=: say )(?:image|nodes)\b|(?<= needs )nodes\b|(?<=nodes or )tasks\b"
)
"""Fields that are named later in a sentence: by an underscore, or where one is told to give another."""


@contextmanager
def own_words(
    args: Namespace, described: Sequence[Mapping[str, object]], *, recorded: Sized = ()
) -> Iterator[None]:
    """`described` are the jobs, submitted so often as was asked; `recorded` are those already taken."""
    try:
        yield
    except TgpuError as error:
        match = _LEAD.match(error.detail)
        if not error.problem or match is None:
            raise
        at = (len(recorded) + int(match["index"] or 0)) % len(described)
        said = flag_for(match["field"], args) or _as_written(match["field"], described[at])
        where = f"job {at + 1} of {', '.join(args.file)}: " if match["index"] and len(described) > 1 else ""
        rest = error.detail[match.end() :]
        if args.file is None:
            rest = _OTHERS.sub(lambda other: any_flag_for(other[0]) or other[0], rest)
        detail = f"{where}{said}{rest}"
        raise TgpuError(error.status, error.title, detail, error.problem) from None


def _as_written(field: str, job: Mapping[str, object]) -> str:
    """What the file calls it."""
    if job.get("dialect") == "kubernetes":
        from tgpu.dialects import kubernetes  # noqa: PLC0415  only who has a manifest

        return kubernetes.path_of(field) or field
    return friendly(field)


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
