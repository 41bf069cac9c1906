"""A job's fields from flags: as in job files, with errors that end a command."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from tgpu.cli.exits import UsageError
from tgpu.cli.screen import note
from tgpu.dialects.native import fields as native
from tgpu.dialects.native.fields import ALIASES, CLASSES, LATER, ON_RETURN, PULLS, field_of, friendly
from tgpu.dialects.native.output_file_fields import OPEN_MODES, expanded
from tgpu.dialects.native.problems import JobFieldError
from tgpu.dialects.native.time_fields import past_begin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = [
    "ALIASES", "CLASSES", "LATER", "ON_RETURN", "OPEN_MODES", "PULLS", "field_of", "friendly", "job_fields",
    "pairs",
]  # fmt: skip


def job_fields(given: Mapping[str, object], where: str = "") -> dict[str, Any]:
    """The API's fields for what was given under friendly names. `where` leads the words of an error."""
    try:
        found = native.job_fields(given, where)
    except JobFieldError as error:
        raise UsageError(str(error)) from None
    if "begin_at" in found and (warning := past_begin(given, found)):
        note(f"{where}{warning}")
    return expanded(found, os.path.expanduser)


def pairs(name: str, value: object, form: str = "KEY=VALUE") -> dict[str, str]:
    """A mapping, or a list of `KEY=VALUE`."""
    try:
        return native.pairs(name, value, form)
    except JobFieldError as error:
        raise UsageError(str(error)) from None
