"""`tgpu nodes`: every machine, and who has which GPU."""

from __future__ import annotations

import time

from tgpu.cli import join_tokens, node_orders, words
from tgpu.cli.answer import Answer, show
from tgpu.cli.arguments import Parser, add_output, command_parser
from tgpu.cli.exits import NOT_FOUND, OK, CommandError, UsageError
from tgpu.cli.screen import STATUS_STYLES, clean
from tgpu.cli.table import Cell, Column, table
from tgpu.client import Client

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_NODES = (
    Column("NODE", floor=8),
    Column("STATUS"),
    Column("DRAINED FOR", floor=11),
    Column("KEPT FOR", floor=11),
    Column("POOL", floor=6),
    Column("GPUS", right=True),
    Column("CPUS", right=True),
    Column("MEMORY", right=True),
    Column("DISK", right=True, rank=3),
    Column("RESOURCES", floor=9, rank=1),
    Column("RUNS JOBS OF", floor=8, rank=4),
    Column("LABELS", floor=8, rank=2),
    Column("TAINTS", floor=8),
)
_LOOKING = (None, "list", "show")
_ACTIONS = (*_LOOKING, *node_orders.VERBS, *join_tokens.ACTIONS)
_MORE = """\
A time behind the status, as in `ready (6s)`: so long was the node not heard; soon it counts as offline.
`waits for approval`: it has joined and gets no work; `tgpu nodes approve NODE` lets it in, `remove` does not.
NOTE says what is wrong with a GPU, and who uses it outside of tgpu: nothing new is put there meanwhile.
"""
_UNAPPROVED = "waits for approval"
_USUAL_POOL = "default"
"""Where all nodes are in it, nobody needs to read of pools."""
_DEVICES = (
    Column("NODE", floor=8),
    Column("GPU", right=True),
    Column("MODEL", floor=8, rank=1),
    Column("HELD BY", floor=12),
    Column("USED", right=True),
    Column("BUSY", right=True),
    Column("TEMP", right=True, rank=4),
    Column("POWER", right=True, rank=5),
    Column("MEMORY", right=True, rank=2),
    Column("NOTE", floor=8, rank=3),
)


def parser() -> Parser:
    made = command_parser("nodes", "Machines and their GPUs: what is given out, and who has which.", _MORE)
    add_output(made, quiet="print only names")
    actions = made.add_subparsers(dest="action", metavar="ACTION", parser_class=Parser)
    listed = actions.add_parser("list", help="all of them (needs not be named)")
    shown = actions.add_parser("show", help="some of them")
    shown.add_argument("nodes", nargs="+", metavar="NODE")
    for parser in (listed, shown):
        add_output(parser, quiet="print only names", again=True)
    node_orders.add_actions(actions)
    join_tokens.add_actions(actions)
    return made


def main(argv: list[str]) -> int:
    if argv and argv[0] not in _ACTIONS and not argv[0].startswith("-"):
        raise UsageError(
            f"there is no `tgpu nodes {argv[0]}` (see `tgpu nodes --help`); "
            f"of a node: `tgpu nodes show {argv[0]}`"
        )
    args = parser().parse_args(argv)
    with Client() as client:
        if args.action not in _LOOKING:
            asked = node_orders if args.action in node_orders.VERBS else join_tokens
            show(asked.answer(client, args), args)
            return OK
        nodes = _wanted(client.nodes(), getattr(args, "nodes", None))
    show(Answer(nodes, lambda screen: _people(screen, nodes), [n["node_id"] for n in nodes]), args)
    return OK


def _wanted(nodes: list[dict[str, Any]], names: list[str] | None) -> list[dict[str, Any]]:
    if names is None:
        return nodes
    known = {node["node_id"]: node for node in nodes}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise CommandError(f"there is no node {', '.join(unknown)}; `tgpu nodes` lists them", NOT_FOUND)
    return [known[name] for name in dict.fromkeys(names)]


def _people(screen: Screen, nodes: list[dict[str, Any]]) -> Iterator[str]:
    if not nodes:
        yield "no nodes yet: `tgpu up` starts one here"
        return
    pools = {node.get("pool") or _USUAL_POOL for node in nodes} != {_USUAL_POOL}
    yield from table(screen, _NODES, [_node(node, pool=pools) for node in nodes])
    for node in nodes:
        if node.get("refused_copy"):
            yield f"{screen.paint('!', 'yellow')} {node['node_id']}: {clean(node['refused_copy'])}"
        if node.get("fault"):
            yield screen.paint(f"{node['node_id']}: {clean(node['fault'])}", "red")
    devices = [_device(node, device) for node in nodes for device in node.get("devices") or []]
    if devices:
        yield ""
        yield from table(screen, _DEVICES, devices)


def _node(node: dict[str, Any], *, pool: bool) -> list[Any]:
    serves = node.get("serves")
    silent = node.get("silent_s")
    status = node["status"] + (f" ({words.duration(silent)})" if silent else "")
    status += " (disk full)" if node.get("disk_shortage") else ""
    if node.get("approval"):
        status = _UNAPPROVED
    labels = [f"{key}={value}" for key, value in (node.get("labels") or {}).items()]
    return [
        node["node_id"],
        Cell(status, "yellow" if status == _UNAPPROVED else STATUS_STYLES.get(node["status"], "")),
        _drained_for(node),
        ", ".join(map(_kept_for, node.get("windows") or [])),
        str(node.get("pool") or _USUAL_POOL) if pool else "",
        _share(node, "gpu_allocated", "gpu_total", words.number),
        _share(node, "cpu_allocated", "cpu_total", words.number),
        _share(node, "mem_allocated_mb", "mem_total_mb", words.size),
        _share(node, "disk_allocated_mb", "disk_total_mb", words.size),
        _resources(node),
        "everyone" if serves in {None, "*"} else str(serves),
        " ".join(labels),
        " ".join(map(str, node.get("taints") or [])),
    ]


def _drained_for(node: dict[str, Any]) -> str:
    """`new kernel (ann)`: the reason, and whose order it is."""
    drain = node.get("drain")
    if not drain:
        return ""
    return f"{drain['reason']} ({drain['by']})" if drain.get("reason") else f"ordered by {drain['by']}"


def _kept_for(window: dict[str, Any]) -> str:
    """`maintenance until 07-25 18:00 (window 3)`: short, as a row has little room for it."""
    whom = window.get("tenant_id") or "maintenance"
    return f"{whom} until {words.short_time(window['until'], time.time())} (window {window['window_id']})"


def _resources(node: dict[str, Any]) -> str:
    """`fpga 1/2`: of each named resource, what is given out of what there is."""
    given = node.get("generic_allocated") or {}
    return " ".join(
        f"{name} {words.number(given.get(name, 0))}/{words.number(total)}"
        for name, total in (node.get("generic_total") or {}).items()
    )


def _share(node: dict[str, Any], used: str, total: str, words_for: Any) -> str:  # noqa: ANN401  a formatter
    return f"{words_for(node.get(used) or 0)}/{words_for(node.get(total) or 0)}"


def _device(node: dict[str, Any], device: dict[str, Any]) -> list[Any]:
    holders = [f"{holder['user_id']} (job {holder['job_id']})" for holder in device.get("holders") or []]
    busy, used = device.get("busy_percent"), device.get("memory_used_mb")
    heat, power = device.get("temperature_c"), device.get("power_w")
    healthy = device.get("healthy", True)
    usable = device.get("usable", healthy)
    taken = bool(holders or device.get("taken"))
    held = ", ".join(holders) or ("in use" if taken else "free" if usable else "not given out")
    return [
        node["node_id"],
        str(device["index"]),
        device.get("model") or "",
        Cell(held, "red" if not healthy else "yellow" if taken or not usable else "green"),
        words.number(device.get("allocated") or 0),
        "-" if busy is None else f"{busy}%",
        "" if heat is None else f"{heat}°C",
        "" if power is None else f"{power}W",
        ("" if used is None else f"{words.size(used)}/") + words.size(device.get("memory_mb")),
        _notes(device, healthy=healthy),
    ]


def _notes(device: dict[str, Any], *, healthy: bool) -> str:
    """What is wrong with it, who else uses it, and what holds it up."""
    said = [str(device.get("note") or ("" if healthy else "unhealthy"))]
    said += [_foreign(use) for use in device.get("foreign") or []]
    if device.get("throttled"):
        said.append(f"slowed down by {device['throttled']}")
    if device.get("ecc_uncorrected"):
        said.append(f"{device['ecc_uncorrected']} memory errors")
    return "; ".join(filter(None, said))


def _foreign(use: dict[str, Any]) -> str:
    """`bob's python (pid 4711, 12G) outside of tgpu`."""
    size = f", {words.size(use['memory_mb'])}" if use.get("memory_mb") else ""
    return f"{use['user']}'s {use['program']} (pid {use['pid']}{size}) outside of tgpu"
