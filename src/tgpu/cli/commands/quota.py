"""`tgpu quota`: what a tenant may have and has, level by level; and its limits set anew."""

from __future__ import annotations

import sys

from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_action, add_actions, add_output, command_parser, with_action
from tgpu.cli.commands.whoami import NO_HOME
from tgpu.cli.exits import NOT_FOUND, OK, CommandError, UsageError
from tgpu.cli.quota_bars import bars, left_over
from tgpu.cli.quota_flags import FLAGS, add_quota_flags, limits
from tgpu.cli.refusals import in_flags
from tgpu.cli.screen import clean
from tgpu.cli.tenant_flags import NONE, PERIODS, add_over_flag, add_tenant
from tgpu.client import Client
from tgpu.client.errors import TgpuError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_ACTIONS = ("show", "set")
_KEPT_BACK = (403, 404)
_EXAMPLES = """\
examples:
  tgpu quota                                     of your own tenants, and of all above them
  tgpu quota lab/vision
  tgpu quota set lab --gpus 8 --memory 512G --gpu-hours 500/month
  tgpu quota set lab/vision --gpus-of a100=4 --running 20 --over queue
  tgpu quota set lab --gpus none
A limit counts a tenant and everybody below it. A lowered one stops what is new and ends nothing.
Of GPU-hours, what running jobs may still need is reserved and counts as used.
"""


def parser() -> Parser:
    made = command_parser("quota", "What a tenant may have at once, and what is left of it.", _EXAMPLES)
    actions = add_actions(made)
    shown = add_action(actions, "show", "used and left, level by level (needs not be named)")
    add_tenant(shown, nargs="?", help="(default: your own ones)")
    add_output(shown)
    changed = add_action(actions, "set", "other limits; what is not named stays, `none` takes one away")
    add_tenant(changed)
    add_quota_flags(changed)
    add_over_flag(changed)
    add_output(changed)
    return made


def main(argv: list[str]) -> int:
    args = parser().parse_args(with_action(argv, "show", unless=_ACTIONS))
    with Client() as client:
        show({"show": _show, "set": _set}[args.action](client, args), args)
    return OK


def _show(client: Client, args: Namespace) -> Answer:
    tenants = [args.tenant] if args.tenant else _own(client)
    levels: dict[str, dict[str, Any]] = {}
    for level in dict.fromkeys(level for tenant_id in tenants for level in _lineage(tenant_id)):
        try:
            levels[level] = client.tenant(level)
        except TgpuError as error:
            # What is above it may be kept back; what was asked for is not left out without a word.
            if error.status not in _KEPT_BACK or level == args.tenant:
                raise

    def people(screen: Screen) -> Iterator[str]:
        for level in levels.values():
            yield _title(screen, level)
            yield from bars(screen, level["quota"])
        for tenant_id in tenants:
            seen = [levels[level]["quota"] for level in _lineage(tenant_id) if level in levels]
            if left := left_over(seen):
                yield f"left for {clean(tenant_id)}: {left}"

    return Answer([level["quota"] for level in levels.values()], people)


def _own(client: Client) -> list[str]:
    """The caller's home, and where they were given a role."""
    me = client.whoami()
    home, is_there = me.get("home_tenant_id"), me.get("home_exists", True)
    roles = [one["tenant_id"] for one in me.get("memberships") or []]
    tenants = [home, *roles] if home and is_there else roles
    if home and not is_there:
        told = f"your tenant {clean(home)} {NO_HOME.format(clean(home))}"
        if not tenants:
            raise CommandError(told, NOT_FOUND)
        print(told, file=sys.stderr)
    if not tenants:
        raise CommandError("you have no tenant of your own; name one: `tgpu tenants` lists them", NOT_FOUND)
    return list(dict.fromkeys(tenants))


def _lineage(tenant_id: str) -> list[str]:
    """From the root down."""
    parts = tenant_id.split("/")
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]


def _title(screen: Screen, tenant: dict[str, Any]) -> str:
    effective = tenant.get("effective") or {}
    said = {"queue": "  what does not fit waits"}.get(str(effective.get("over_quota")), "")
    said += "  archived: takes no new jobs" if effective.get("archived") else ""
    return screen.paint(clean(tenant["tenant_id"]), "bold") + screen.paint(said, "dim")


def _set(client: Client, args: Namespace) -> Answer:
    fields = limits(args)
    if not fields and args.over is None:
        raise UsageError("what shall change? such as --gpus 8, --memory none, --over queue")
    with in_flags(FLAGS):
        quota = client.change_quota(args.tenant, force=args.force, **fields) if fields else None
    if args.over is not None:
        # After the limits: they are what a server refuses, and then nothing has changed.
        mode = None if args.over == NONE else args.over
        quota = client.change_tenant(args.tenant, over_quota=mode)["quota"]
    assert quota is not None

    def people(screen: Screen) -> Iterator[str]:
        yield f"Quota of {clean(args.tenant)}"
        yield from bars(screen, quota)
        if args.gpu_hours not in {None, NONE} and "/" not in args.gpu_hours:
            period = quota["gpu_hours_period"]
            yield f"GPU-hours are counted by {period}, since none of {', '.join(PERIODS)} was named"

    return Answer(quota, people)
