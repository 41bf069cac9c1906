"""The flags that say what holds for a tenant, and the API's fields that they mean; `none` takes one away."""

from __future__ import annotations

from tgpu.cli.exits import UsageError
from tgpu.cli.fields import CLASSES
from tgpu.domain import quantities
from tgpu.domain.quantities import BadQuantityError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

NONE = "none"
PERIODS = ("day", "week", "month", "ever")
MODES = ("reject", "queue")
_MAX_GPU_HOURS = 1_000_000_000
_RESERVED = frozenset({"quota", "members", "move"})  # what stands there in a path is not a tenant


def add_tenant(parser: ArgumentParser, **more: Any) -> None:  # noqa: ANN401  as add_argument
    parser.add_argument("tenant", metavar="TENANT", type=tenant_id, **more)


def tenant_id(text: str) -> str:
    """For argparse. The server knows what a good name is; here only what would be another path is refused."""
    parts = text.split("/")
    if "" in parts or "." in parts or ".." in parts or not _RESERVED.isdisjoint(parts):
        taken = ", ".join(sorted(_RESERVED))
        raise UsageError(f"a tenant is named like lab or lab/vision, and no part of it {taken}; got {text!r}")
    return text


FLAGS = {
    "weight": "--weight",
    "tier": "--tier",
    "default_class": "--default-class",
    "classes": "--classes",
    "default_time_limit_s": "--default-time",
    "max_time_limit_s": "--max-time",
    "over_quota": "--over",
    "may_burst": "--burst",
    "budget_gpu_hours": "--budget",
}
"""By the API's field: so that a refusal speaks of what was typed."""


def add_term_flags(parser: ArgumentParser) -> None:
    parser.add_argument("--weight", metavar="N", help="how much of the whole is its due, beside its siblings")
    parser.add_argument("--tier", metavar="NAME", help="a named set of terms from the settings")
    parser.add_argument(
        "--default-class", metavar="CLASS", choices=(*CLASSES, NONE), help="of a job that names none"
    )
    parser.add_argument("--classes", metavar="C,…", help="the classes that its jobs may be of")
    parser.add_argument("--default-time", metavar="DURATION", help="the time limit of a job that has none")
    parser.add_argument("--max-time", metavar="DURATION", help="the longest time limit; a job must have one")
    add_over_flag(parser)
    parser.add_argument(
        "--burst", choices=("yes", "no", NONE), help="whether class `low` may run beyond the quota when idle"
    )
    parser.add_argument(
        "--budget", metavar="N[/PERIOD]", help="GPU-hours it means to spend, such as 500/month; only warns"
    )


def add_over_flag(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--over",
        choices=(*MODES, NONE),
        help="what is beyond the quota: `reject` refuses it, `queue` lets it wait (unless said: as above it)",
    )


def terms(args: Namespace) -> dict[str, Any]:
    """The API's fields for what was given."""
    fields: dict[str, Any] = {}
    if args.weight is not None:
        fields["weight"] = whole("--weight", args.weight, quantities.MAX_PRIORITY)
    if args.classes is not None:
        fields["classes"] = None if args.classes == NONE else _classes(args.classes)
    for flag, value, field in (
        ("--default-time", args.default_time, "default_time_limit_s"),
        ("--max-time", args.max_time, "max_time_limit_s"),
    ):
        if value is not None:
            fields[field] = None if value == NONE else _seconds(flag, value)
    for value, field in (
        (args.tier, "tier"),
        (args.default_class, "default_class"),
        (args.over, "over_quota"),
    ):
        if value is not None:
            fields[field] = None if value == NONE else value
    if args.burst is not None:
        fields["may_burst"] = {"yes": True, "no": False, NONE: None}[args.burst]
    if args.budget is not None:
        fields |= gpu_hours("--budget", args.budget, "budget_gpu_hours", "budget_period")
    return fields


def gpu_hours(flag: str, text: str, field: str, period_field: str) -> dict[str, Any]:
    """`500/month`, or `500`: by the period that it has, the month at first."""
    if text == NONE:
        return {field: None}
    number, _, period = text.partition("/")
    if period not in {"", *PERIODS}:
        raise UsageError(f"{flag} must be like 500/month; a period is {', '.join(PERIODS)}; got {text!r}")
    amount = decimal(flag, number, _MAX_GPU_HOURS * quantities.MILLI)
    return {field: amount, period_field: period} if period else {field: amount}


def decimal(flag: str, text: str, most_milli: int) -> float:
    """With at most 3 digits after the point, and without a point where there is none to say."""
    try:
        exact = quantities.milli(flag, text, most_milli)
    except BadQuantityError as error:
        raise UsageError(str(error)) from None
    return exact // quantities.MILLI if exact % quantities.MILLI == 0 else exact / quantities.MILLI


def whole(flag: str, text: str, most: int) -> int:
    try:
        return quantities.whole(flag, text, most)
    except BadQuantityError as error:
        raise UsageError(str(error)) from None


def _seconds(flag: str, text: str) -> int:
    try:
        return quantities.seconds(flag, text)
    except BadQuantityError as error:
        raise UsageError(str(error)) from None


def _classes(text: str) -> list[str]:
    named = text.split(",")
    for name in named:
        if name not in CLASSES:
            raise UsageError(f"--classes must be some of {','.join(CLASSES)}, or `none`; got {name!r}")
    return named
