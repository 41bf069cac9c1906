"""The flags that say how a job is to be changed (of `edit` and `rerun`), and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tgpu.cli.exits import UsageError
from tgpu.cli.fields import CLASSES, field_of, job_fields

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

_FLAGS = (
    ("--time", "time", "DURATION", "stop it after this, such as 2h"),
    ("--priority", "priority", "N", "higher is served first among your class"),
    ("--class", "class", "CLASS", "real-time, high, default, low or best-effort"),
    ("--name", "name", "NAME", "a name to find it by"),
    ("--max-wait", "max_wait", "DURATION", "give up if it has not started after this"),
    ("--begin", "begin", "MOMENT", "not before, such as 16:00 or now+1hour"),
    ("--deadline", "deadline", "MOMENT", "to be over by then"),
    ("--gpus", "gpus", "N", "GPUs; 0.25 is a quarter of one"),
    ("--gpu-type", "gpu_type", "MODEL", "only GPUs of this model"),
    ("--gpu-memory", "gpu_memory", "SIZE", "each GPU has so much; without --gpus: so much of one, shared"),
    ("--cpus", "cpus", "N", "CPUs"),
    ("--memory", "memory", "SIZE", "memory, such as 16G"),
    ("--cpu-limit", "cpu_limit", "N", "CPUs that it may use at most"),
    ("--memory-limit", "memory_limit", "SIZE", "memory that it may use at most"),
    ("--disk", "disk", "SIZE", "disk, such as 10G"),
    ("--pool", "pool", "POOL", "only nodes of this pool"),
)
_REPEATED = (
    (
        "--node-selector",
        "node_selector",
        "K=V",
        "only nodes with this label; repeatable, instead of all before",
    ),
    (
        "--where",
        "where",
        "EXPR",
        "only nodes with labels like `zone in (a,b)`; repeatable, instead of all before",
    ),
    (
        "--tolerate",
        "tolerate",
        "KEY[=VALUE]",
        "nodes with this taint will do; repeatable, instead of all before",
    ),
    ("--resource", "resource", "NAME=N", "so many of a named resource; repeatable, instead of all before"),
)
_ABSENT = (
    "time", "max_wait", "begin", "deadline", "gpu_type", "cpu_limit", "memory_limit", "pool", "node_selector",
    "where", "tolerate", "resource", "at_once",
)  # fmt: skip
_EMPTY: dict[str, Any] = {"node_selector": {}, "node_rules": [], "tolerations": [], "generic": {}}


def add_change_flags(made: ArgumentParser) -> None:
    made.add_argument(
        "--array",
        metavar="%N",
        help="of an array: so many of it at once, also while some of it runs; who waits already goes on",
    )
    made.add_argument("--parallelism", metavar="N", help="the same, also of a job of --completions")
    for flag, dest, metavar, doc in _FLAGS:
        choices = CLASSES if dest == "class" else None
        made.add_argument(flag, dest=dest, metavar=metavar, help=doc, choices=choices)
    for flag, dest, metavar, doc in _REPEATED:
        made.add_argument(flag, dest=dest, action="append", metavar=metavar, help=doc)
    made.add_argument(
        "--requeue-on-timeout",
        dest="requeue_on_timeout",
        action="store_true",
        default=None,
        help="let it wait again when it runs into its time limit",
    )
    made.add_argument(
        "--without", action="append", default=[], metavar="WHAT", choices=_ABSENT,
        help=f"take this away: {', '.join(_ABSENT)}; repeatable",
    )  # fmt: skip


def changes_of(args: Namespace) -> dict[str, Any]:
    """The API's fields; empty: nothing is to be changed."""
    names = [*(dest for _, dest, *_ in (*_FLAGS, *_REPEATED)), "requeue_on_timeout"]
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    changes = job_fields(given, "--") if given else {}
    changes |= _at_once(args)
    for word in args.without:
        field = field_of(word)
        if field in changes:
            raise UsageError(f"--{word.replace('_', '-')} and --without {word} contradict each other")
        changes[field] = _EMPTY.get(field)
    return changes


def _at_once(args: Namespace) -> dict[str, Any]:
    said = [
        (flag, text)
        for flag, text in (("--array", args.array), ("--parallelism", args.parallelism))
        if text is not None
    ]
    if not said:
        return {}
    flag, text = said[0]
    number = text.removeprefix("%") if flag == "--array" else text
    if len(said) > 1:
        raise UsageError("--array and --parallelism say the same: leave one of them out")
    if (flag == "--array" and number == text) or not (number.isascii() and number.isdigit()):
        form = "%5: its indices stay as they are" if flag == "--array" else "5"
        raise UsageError(f"{flag} must say how many of it at once, such as {form}; got {text[:80]!r}")
    return {"at_once": int(number)}


def flags_of_fields(args: Namespace) -> dict[str, str]:
    """What is typed for each of the API's fields."""
    at_once = "--array" if args.parallelism is None else "--parallelism"
    return {"at_once": at_once} | {field_of(dest): flag for flag, dest, *_ in (*_FLAGS, *_REPEATED)}
