"""`sinfo`: partitions and nodes."""

from __future__ import annotations

import os
import time

from tgpu.cli.slurm.main import VERSION
from tgpu.client import Client
from tgpu.dialects.slurm import columns, node_columns
from tgpu.dialects.slurm.hosts import expanded
from tgpu.dialects.slurm.node_columns import Part
from tgpu.dialects.slurm.options import named
from tgpu.dialects.slurm.pages import parts_of
from tgpu.dialects.slurm.refusal import SlurmError

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_OPTIONS = named(
    values=("clusters,M format,o Format,O iterate,i nodes,n partition,p sort,S states,t"),
    flags=(
        "all,a dead,d exact,e federation help hide list-reasons,R local long,l noconvert Node,N "
        "noheader,h reservation,T responding,r summarize,s usage verbose,v version,V"
    ),
    optional="future,F json",
    aliases={"state": "states"},
)
_VARIABLES = {"SINFO_FORMAT": "format", "SINFO_PARTITION": "partition", "SINFO_SORT": "sort"}
_SAME = {"alloc": "allocated", "mix": "mixed", "drng": "draining", "down": "down*"}
_STATE_ORDER = ("down*", "drained", "draining", "mixed", "allocated", "idle")
_OUT = ("down*", "drained", "draining")


def main(argv: list[str]) -> int:
    said = {name: os.environ[variable] for variable, name in _VARIABLES.items() if variable in os.environ}
    given, rest = _OPTIONS.read(argv, mixed=True)
    options: dict[str, str | None] = {**said, **dict(given)}
    if rest:
        raise SlurmError(f"{rest[0]!r} is no option: nodes are named with -n")
    if {"help", "usage"} & options.keys():
        print("Usage: sinfo [OPTIONS]; see docs/slurm.md")
        return 0
    if "version" in options:
        print(VERSION)
        return 0
    if "reservation" in options:
        raise SlurmError("-T: `tgpu windows` lists what is kept for whom")
    with Client() as client:
        nodes = _wanted(client.nodes(), options)
    if "json" in options:
        import json  # noqa: PLC0415  only who asks for it

        print(json.dumps({"errors": [], "nodes": nodes}))
        return 0
    if "long" in options and "noheader" not in options:
        print(time.strftime("%a %b %d %H:%M:%S %Y"))
    if options.get("Format"):
        long_form = str(options["Format"])
        table = columns.long(long_form, node_columns.LONG_NAMES)
        letters = _letters_of(long_form)
        parts = _parts(nodes, options, letters)
    else:
        form = options.get("format")
        form = _usual(options) if form is None else form
        letters = {
            form[at + 1 :].lstrip(".0123456789{PN}")[:1] for at, char in enumerate(form) if char == "%"
        }
        parts = _parts(nodes, options, letters)
        table = columns.short(_measured(form, parts), node_columns.SHORT)
    for line in table.lines(parts, header="noheader" not in options):
        print(line)
    return 0


def _usual(options: dict[str, str | None]) -> str:
    by_node, long = "Node" in options, "long" in options
    if "list-reasons" in options:
        return node_columns.REASONS
    if by_node:
        return node_columns.BY_NODE_LONG if long else node_columns.BY_NODE
    if "summarize" in options:
        return node_columns.SUMMARY
    return node_columns.LONG if long else node_columns.DEFAULT


def _measured(form: str, parts: list[Part]) -> str:
    """Partitions and nodes get as much room as the longest needs."""
    pool = max([len("PARTITION"), *(len(part.pool) + part.default for part in parts)])
    names = max([len("NODELIST"), *(len(part.names) for part in parts)])
    return form.replace("{P}", str(pool)).replace("{N}", str(names))


def _letters_of(form: str) -> set[str]:
    names = {part.partition(":")[0].strip().lower() for part in form.split(",")}
    return {letter for letter, column in node_columns.SHORT.items() for name in names
            if node_columns.LONG_NAMES.get(name) is column}  # fmt: skip


def _wanted(nodes: list[dict[str, Any]], options: dict[str, str | None]) -> list[dict[str, Any]]:
    text = options.get("partition")
    if text and len({node["pool"] for node in nodes}) > 1:  # as for jobs, of one pool alone it has no effect
        nodes = [node for node in nodes if node["pool"] in text.split(",")]
    if text := options.get("nodes"):
        names = set(expanded("-n", text))
        nodes = [node for node in nodes if node["node_id"] in names]
    if text := options.get("states"):
        words = {_SAME.get(word, word) for word in text.lower().replace("&", ",").split(",")}
        words |= {"draining", "drained"} if "drain" in words else set()
        nodes = [node for node in nodes if "all" in words or node_columns.state_of(node) in words]
    if "dead" in options:
        nodes = [node for node in nodes if node["status"] == "offline"]
    if "responding" in options:
        nodes = [node for node in nodes if node["status"] != "offline"]
    if "list-reasons" in options:
        nodes = [node for node in nodes if node_columns.state_of(node) in _OUT]
    return nodes


def _parts(nodes: list[dict[str, Any]], options: dict[str, str | None], letters: set[str]) -> list[Part]:
    """One for each partition; for each state of it, if that is asked for; for each node, if that tells them
    apart."""
    found: list[Part] = []
    for whole in parts_of(nodes):
        groups: dict[object, list[Any]] = {}
        for node in sorted(whole.nodes, key=_by_state):
            groups.setdefault(_kind(node, options, letters), []).append(node)
        found += [Part(whole.pool, some, default=whole.default) for some in groups.values()]
    if "Node" in options:
        found.sort(key=lambda part: part.names)
    return found


def _by_state(node: Any) -> tuple[int, str]:  # noqa: ANN401  a node as the API shows it
    return _STATE_ORDER.index(node_columns.state_of(node)), str(node["node_id"])


def _kind(node: Mapping[str, Any], options: dict[str, str | None], letters: set[str]) -> object:
    if "Node" in options or letters & set("nO"):
        return node["node_id"]
    of_state = node_columns.state_of(node) if letters & set("tTE") else ""
    apart = letters & node_columns.OF_ONE_NODE - set("N")
    alone = Part("", [node], default=False)
    return (
        of_state,
        *(node_columns.SHORT[letter][1](alone) for letter in sorted(apart) if letter not in "cmd"),
    )
