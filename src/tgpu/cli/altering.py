"""What `hold`, `release` and `edit` have in common: one call per job, and what became of each."""

from __future__ import annotations

from tgpu.cli import words
from tgpu.cli.answer import Answer, show
from tgpu.cli.exits import OK
from tgpu.cli.screen import note
from tgpu.client import Client, TgpuError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence
    from typing import Any


def each(
    args: Namespace,
    ids: Sequence[int],
    call: Callable[[Client, int], dict[str, Any]],
    client: Client,
    said: str,
) -> int:
    """Of one job a refusal is told as any; of several, the others are done all the same."""
    done: list[dict[str, Any]] = []
    refused: list[TgpuError] = []
    for job_id in ids:
        try:
            done.append(call(client, job_id))
        except TgpuError as error:
            if len(ids) == 1 or error.status < 400 or error.status >= 500:  # noqa: PLR2004  not about this job
                raise
            refused.append(error)
    changed = [job["job_id"] for job in done]

    def people(_: object) -> list[str]:
        if not changed:
            return []
        return [f"{said} job{'s' if len(changed) > 1 else ''} {words.ranges(changed)}"]

    show(Answer(done[0] if len(ids) == 1 else done, people, changed), args)
    for refusal in refused[:-1]:
        note(str(refusal))
    if refused:
        raise refused[-1]
    return OK
