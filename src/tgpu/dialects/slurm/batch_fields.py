"""A batch script's own part of a job: its command and its environment, beside what its options say."""

from __future__ import annotations

import sys

from tgpu.dialects.slurm import launching

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tgpu.dialects.slurm.given import Given
    from tgpu.dialects.slurm.translation import Translated


def batch_fields(  # noqa: PLR0917  what a script is made of
    made: Translated, given: Given, text: str, arguments: Sequence[str], env: dict[str, str], step_key: str
) -> dict[str, Any]:
    """All but its name and where it runs. `step_key`: by which nodes of a job on several know each other."""
    nodes = made.layout.nodes
    command = launching.command(text, arguments, stdin=_stdin(given), nodes=nodes, python=sys.executable)
    more = {"TGPU_STEP_KEY": step_key} if nodes > 1 else {}
    return made.fields | {"command": command, "env": env | more}


def _stdin(given: Given) -> str:
    text = given.get("input") or ""
    if "%" in text:
        raise given.refuse("input", f"must name one file, without %; got {text!r}")
    return "" if text == "/dev/null" else text
