"""`tgpu nodes drain`, `undrain`, `remove` and `approve`: what administrators order of nodes."""

from __future__ import annotations

import time

from tgpu.cli import words
from tgpu.cli.answer import Answer
from tgpu.cli.arguments import add_output
from tgpu.cli.exits import TIMED_OUT, CommandError, UsageError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from tgpu.client import Client

    Actions = Any  # argparse has no public name for what add_subparsers returns

VERBS = ("drain", "undrain", "remove", "approve")
_BY_NAME = frozenset({"remove", "approve"})
_LOOK_EVERY_S = 1.0
_CONFLICT = 409
_DONE = {
    "drain": "Draining: nothing new starts on",
    "undrain": "Takes tasks again:",
    "remove": "Removed; to come back it must join anew:",
    "approve": "Approved; it gets work within seconds:",
}


def add_actions(actions: Actions) -> None:
    drain = actions.add_parser("drain", help="let nothing new start on nodes; what runs there runs on")
    _add_choice(drain)
    drain.add_argument("--reason", metavar="TEXT", default="", help="why, for whoever looks at the nodes")
    drain.add_argument("--wait", action="store_true", help="wait until nothing runs there any more")
    drain.add_argument(
        "--timeout", metavar="DURATION", help="with --wait: give up after this, with exit code 124"
    )
    undrain = actions.add_parser("undrain", help="let nodes take tasks again")
    _add_choice(undrain)
    remove = actions.add_parser("remove", help="forget nodes that are away; they would have to join anew")
    approve = actions.add_parser("approve", help="let nodes in that have joined and wait for approval")
    for parser in (remove, approve):
        parser.add_argument("nodes", nargs="+", metavar="NODE")
    for parser in (drain, undrain, remove, approve):
        add_output(parser, quiet="print only names", again=True)


def _add_choice(parser: Any) -> None:  # noqa: ANN401  as argparse has it
    parser.add_argument("nodes", nargs="*", metavar="NODE")
    parser.add_argument(
        "--where",
        action="append",
        metavar="RULE",
        default=[],
        help="instead of names: all nodes with labels like `rack=r7`, `zone in (a,b)`; repeatable",
    )


def answer(client: Client, args: Namespace) -> Answer:
    if args.action not in _BY_NAME and bool(args.nodes) == bool(args.where):
        raise UsageError(f"which nodes? `tgpu nodes {args.action} NODE…`, or --where RULE; not both")
    from tgpu.cli.refusals import in_flags  # noqa: PLC0415  `tgpu nodes` does without

    with in_flags({"where": "--where", "reason": "--reason"}):
        return _carried_out(client, args)


def _carried_out(client: Client, args: Namespace) -> Answer:
    said = _DONE[args.action]
    if args.action == "drain":
        limit_s = _limit_s(args)
        nodes = _drain(client, args)
        if args.wait:
            _wait_until_empty(client, nodes, limit_s)
            said = "Empty, and nothing new starts on"
    elif args.action == "undrain":
        drained = {node["node_id"] for node in client.nodes() if node.get("drain")}
        nodes = client.undrain_nodes(args.nodes, where=args.where)
        if not drained.intersection(nodes):
            said = "Nothing was changed; not drained:"
    elif args.action == "approve":
        nodes = list(dict.fromkeys(args.nodes))
        for node in nodes:
            client.approve_node(node)
    else:
        nodes = client.remove_nodes(args.nodes)
    return Answer({"nodes": nodes}, lambda _: [f"{said} {', '.join(nodes)}"], nodes)


def _drain(client: Client, args: Namespace) -> list[str]:
    """Who waits wants them empty, whoever gave the order: those that drain already are waited for, too."""
    from tgpu.client.errors import TgpuError  # noqa: PLC0415  `tgpu nodes` does without

    try:
        nodes = client.drain_nodes(args.nodes, where=args.where, reason=args.reason)
    except TgpuError as error:
        if not args.wait or error.status != _CONFLICT:
            raise
        nodes = []
    if not args.wait:
        return nodes
    chosen = [node for node in client.nodes() if node["node_id"] in nodes or _is_chosen(node, args)]
    others = [node["node_id"] for node in chosen if not node.get("drain") and node["node_id"] not in nodes]
    if others:
        client.drain_nodes(others, reason=args.reason)
    return [node["node_id"] for node in chosen]


def _is_chosen(node: dict[str, Any], args: Namespace) -> bool:
    from tgpu.domain.label_rules import holds, label_rules  # noqa: PLC0415  `tgpu nodes` does without

    if args.nodes:
        return node["node_id"] in args.nodes
    labels = node.get("labels") or {}
    return all(holds(rule, labels.get(rule.key)) for rule in label_rules("--where", args.where))


def _limit_s(args: Namespace) -> float | None:
    from tgpu.domain.quantities import BadQuantityError, seconds  # noqa: PLC0415  `tgpu nodes` does without

    if args.timeout is None:
        return None
    if not args.wait:
        raise UsageError("--timeout is for --wait: say both")
    try:
        return float(seconds("--timeout", args.timeout))
    except BadQuantityError as error:
        raise UsageError(str(error)) from None


def _wait_until_empty(client: Client, nodes: list[str], limit_s: float | None) -> None:
    """Through restarts of the server, too. An order that somebody took back will never be done."""
    from tgpu.client import waiting  # noqa: PLC0415  only for who waits
    from tgpu.client.errors import TgpuError  # noqa: PLC0415

    until = None if limit_s is None else time.monotonic() + limit_s
    while True:
        try:
            found = [node for node in client.nodes() if node["node_id"] in nodes]
        except TgpuError as error:
            if not waiting.is_passing(error):
                raise
        else:
            taken_back = [node["node_id"] for node in found if node.get("drain") is None]
            if taken_back:
                raise CommandError(f"somebody took the order back: {', '.join(taken_back)}")
            running = sum(len(node["running"]) for node in found)
            if not running:
                return
            if until is not None and time.monotonic() >= until:
                raise CommandError(
                    f"{words.plural(running, 'attempt')} still there; the nodes go on draining", TIMED_OUT
                )
        time.sleep(_LOOK_EVERY_S)
