"""`tgpu tenants`: who shares the machines, as a tree; made, changed, moved, archived and removed."""

from __future__ import annotations

from tgpu.cli import quota_flags, tenant_flags
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_action, add_actions, add_output, command_parser, with_action
from tgpu.cli.exits import OK, UsageError
from tgpu.cli.quota_flags import add_quota_flags, limits
from tgpu.cli.refusals import in_flags
from tgpu.cli.screen import clean
from tgpu.cli.tenant_flags import NONE, PERIODS, add_tenant, add_term_flags, tenant_id, terms
from tgpu.cli.tenant_tree import card, is_archived, tree
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_EXAMPLES = """\
examples:
  tgpu tenants                    the tree; with -a also archived tenants that have no jobs left
  tgpu tenants add lab --weight 2 --gpus 6
  tgpu tenants add lab/vision --classes default,low --max-time 2d
  tgpu tenants set lab/vision --weight 3 --max-time none
  tgpu tenants move lab/vision org/vision
  tgpu tenants archive lab
Weights compare siblings, and count from the next decision on. `tgpu quota set` changes limits.
"""


def parser() -> Parser:
    made = command_parser("tenants", "Who shares the machines: weights, shares, use and terms.", _EXAMPLES)
    actions = add_actions(made)
    listed = add_action(actions, "list", "the tree (needs not be named)")
    listed.add_argument("-a", "--all", action="store_true", help="also archived ones that have no jobs left")
    add_output(listed, quiet="print only names")
    _one(actions, "show", "all about one of them")
    new = _one(actions, "add", "a new one, below a parent that exists")
    add_term_flags(new)
    add_quota_flags(new)
    new.add_argument(
        "--take-over",
        action="store_true",
        help="also a name of one that was removed, with its ended jobs (administrators)",
    )
    add_term_flags(_one(actions, "set", "change what holds for it; `none` leaves it to its parent"))
    moved = _one(actions, "move", "another name or parent, with all below it, its jobs and members")
    moved.add_argument("to", metavar="NEW", type=tenant_id)
    _one(actions, "archive", "it takes no new jobs; what there is goes on")
    _one(actions, "unarchive", "it takes jobs again")
    _one(actions, "remove", "without jobs that wait or run, and without tenants below it")
    return made


def _one(actions: Any, name: str, doc: str) -> Parser:  # noqa: ANN401  argparse has no name for them
    made = add_action(actions, name, doc)
    add_tenant(made)
    add_output(made, quiet="print only its name")
    return made


def main(argv: list[str]) -> int:
    words = with_action(argv, "list")
    _check_no_limits(words)
    args = parser().parse_args(words)
    with Client() as client:
        show(_ANSWERS[args.action](client, args), args)
    return OK


def _check_no_limits(words: list[str]) -> None:
    """`add` takes limits, so people try them with `set`, too."""
    for word in words if words[0] == "set" else ():
        if word.partition("=")[0] in quota_flags.FLAGS.values():
            raise UsageError(f"{word} is a limit: `tgpu quota set TENANT {word} …` changes it")


def _list(client: Client, args: Namespace) -> Answer:
    listed = client.tenant_list()
    every = listed["tenants"]
    tenants = [tenant for tenant in every if args.all or not is_archived(tenant) or _has_jobs(tenant)]

    def people(screen: Screen) -> Iterator[str]:
        yield from tree(screen, tenants, complete=listed.get("complete", True))
        if hidden := len(every) - len(tenants):
            yield f"{hidden} archived, without jobs: `tgpu tenants -a` shows them"

    return Answer(tenants, people, [tenant["tenant_id"] for tenant in tenants])


def _has_jobs(tenant: dict[str, Any]) -> bool:
    quota = tenant.get("quota") or {}
    return bool(quota.get("running_jobs_used") or quota.get("waiting_jobs_used"))


def _show(client: Client, args: Namespace) -> Answer:
    tenant = client.tenant(args.tenant)
    return Answer(tenant, lambda screen: card(screen, tenant), [tenant["tenant_id"]])


def _add(client: Client, args: Namespace) -> Answer:
    with in_flags(tenant_flags.FLAGS | quota_flags.FLAGS):
        made = client.create_tenant(
            args.tenant, force=args.force, take_over=args.take_over, **terms(args), **limits(args)
        )
    return _told(made, f"is there{_budget_period(made, args)}")


def _set(client: Client, args: Namespace) -> Answer:
    fields = terms(args)
    if not fields:
        raise UsageError("what shall change? such as --weight 3, --classes default,low, --max-time none")
    with in_flags(tenant_flags.FLAGS):
        changed = client.change_tenant(args.tenant, **fields)
    return _told(changed, f"is changed{_budget_period(changed, args)}")


def _budget_period(tenant: dict[str, Any], args: Namespace) -> str:
    """By which period a budget counts that named none."""
    if args.budget in {None, NONE} or "/" in args.budget:
        return ""
    return (
        f"; its budget counts by {tenant.get('budget_period')}, since none of {', '.join(PERIODS)} was named"
    )


def _move(client: Client, args: Namespace) -> Answer:
    moved = client.move_tenant(args.tenant, args.to)
    said = f"Tenant {clean(args.tenant)} is {clean(moved['tenant_id'])} from now on"
    return Answer(moved, lambda _: [said, *_notes(moved)], [moved["tenant_id"]])


def _archive(client: Client, args: Namespace) -> Answer:
    return _told(client.change_tenant(args.tenant, archived=True), "takes no new jobs")


def _unarchive(client: Client, args: Namespace) -> Answer:
    return _told(client.change_tenant(args.tenant, archived=False), "takes jobs again")


def _remove(client: Client, args: Namespace) -> Answer:
    answer = client.remove_tenant(args.tenant)
    return _told({"tenant_id": args.tenant, **answer}, "is removed")


def _told(tenant: dict[str, Any], what: str) -> Answer:
    said = f"Tenant {clean(tenant['tenant_id'])} {what}"
    return Answer(tenant, lambda _: [said, *_notes(tenant)], [tenant["tenant_id"]])


def _notes(tenant: dict[str, Any]) -> list[str]:
    """What the server says beside its answer."""
    return [f"note: {clean(text)}" for text in tenant.get("notes") or []]


_ANSWERS = {
    "list": _list,
    "show": _show,
    "add": _add,
    "set": _set,
    "move": _move,
    "archive": _archive,
    "unarchive": _unarchive,
    "remove": _remove,
}
