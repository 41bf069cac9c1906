"""What the commands that go inside a job share: which job, task and attempt is meant, and how one leaves."""

from __future__ import annotations

from tgpu.cli import detach_keys
from tgpu.cli.exits import UsageError
from tgpu.cli.selectors import resolve_one

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import ArgumentParser

    from tgpu.client import Client

_PARTS = 3


def add_target(parser: ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB[.TASK]", help="which: 42, its task 42.3, or last")


def add_detach_keys(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--detach-keys",
        metavar="KEYS",
        default=detach_keys.DEFAULT,
        help=f"keys that leave the job running, or none (default: {detach_keys.DEFAULT})",
    )


def target_of(client: Client, text: str) -> tuple[int, int | None, int | None]:
    """Job, task and attempt: `42` says no task, which is its first, `42.3.1` one attempt of another."""
    job, *rest = text.split(".")
    if len(rest) >= _PARTS or not all(part.isascii() and part.isdigit() for part in rest):
        raise UsageError(f"{text!r} names no task: use 42, 42.3, 42.3.1 or last")
    numbers = [int(part) for part in rest]
    job_id = resolve_one(client, job)
    return job_id, numbers[0] if numbers else None, numbers[1] if len(numbers) > 1 else None
