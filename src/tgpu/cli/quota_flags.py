"""The flags that limit a tenant, and the API's fields that they mean; `none` takes a limit away."""

from __future__ import annotations

from tgpu.cli.exits import UsageError
from tgpu.cli.fields import pairs
from tgpu.cli.tenant_flags import NONE, decimal, gpu_hours, whole
from tgpu.domain import quantities
from tgpu.domain.quantities import BadQuantityError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable
    from typing import Any

_FLAGS = (
    ("--gpus", "gpus", "N", "GPUs"),
    ("--cpus", "cpus", "N", "CPUs"),
    ("--memory", "memory", "SIZE", "memory, such as 512G"),
    ("--disk", "disk", "SIZE", "disk, such as 2T"),
    ("--running", "running", "N", "jobs that run at once"),
    ("--waiting", "waiting", "N", "jobs that wait at once"),
    (
        "--gpu-hours",
        "gpu_hours",
        "N[/PERIOD]",
        "GPU-hours by day, week, month (at first) or ever, such as 500/week",
    ),
)
FLAGS = {
    "gpu_limit": "--gpus",
    "cpu_limit": "--cpus",
    "mem_limit_mb": "--memory",
    "disk_limit_mb": "--disk",
    "running_jobs_limit": "--running",
    "waiting_jobs_limit": "--waiting",
    "gpu_hours_limit": "--gpu-hours",
    "gpu_type_limits": "--gpus-of",
    "generic_limits": "--resource",
}
"""By the API's field: so that a refusal speaks of what was typed."""
_MOST_JOBS = 1_000_000_000


def add_quota_flags(parser: ArgumentParser) -> None:
    for flag, dest, metavar, doc in _FLAGS:
        parser.add_argument(flag, dest=dest, metavar=metavar, help=doc)
    parser.add_argument(
        "--gpus-of", action="append", metavar="MODEL=N", help="GPUs of a model, such as a100=4; repeatable"
    )
    parser.add_argument(
        "--resource", action="append", metavar="NAME=N", help="of a named resource, such as lic=2; repeatable"
    )
    parser.add_argument("--force", action="store_true", help="also on what no node has now")


def limits(args: Namespace) -> dict[str, Any]:
    """The API's fields for what was given."""
    fields: dict[str, Any] = {}
    for name, field, convert in (
        ("gpus", "gpu_limit", lambda flag, text: decimal(flag, text, quantities.MAX_GPU_MILLI)),
        ("cpus", "cpu_limit", lambda flag, text: decimal(flag, text, quantities.MAX_CPU_MILLI)),
        ("memory", "mem_limit_mb", _mebibytes),
        ("disk", "disk_limit_mb", _mebibytes),
        ("running", "running_jobs_limit", _jobs),
        ("waiting", "waiting_jobs_limit", _jobs),
    ):
        text = getattr(args, name)
        if text is not None:
            fields[field] = None if text == NONE else convert(f"--{name}", text)
    if args.gpu_hours is not None:
        fields |= gpu_hours("--gpu-hours", args.gpu_hours, "gpu_hours_limit", "gpu_hours_period")
    if args.gpus_of:
        fields["gpu_type_limits"] = _named("--gpus-of", "MODEL=N, such as a100=4", args.gpus_of, _of_model)
    if args.resource:
        fields["generic_limits"] = _named("--resource", "NAME=N, such as lic=2", args.resource, _of_resource)
    return fields


def _named(flag: str, form: str, given: list[str], convert: Callable[[str, str], float]) -> dict[str, Any]:
    return {
        name: None if text == NONE else convert(f"{flag} {name}", text)
        for name, text in pairs(flag, given, form).items()
    }


def _of_model(said: str, text: str) -> float:
    return decimal(said, text, quantities.MAX_GPU_MILLI)


def _of_resource(said: str, text: str) -> int:
    return whole(said, text, quantities.MAX_GENERIC)


def _jobs(flag: str, text: str) -> int:
    return whole(flag, text, _MOST_JOBS)


def _mebibytes(flag: str, text: str) -> int:
    try:
        return quantities.mib(flag, text)
    except BadQuantityError as error:
        raise UsageError(str(error)) from None
