"""What servers ask of the one that leads: questions that need the live picture or an agent's stream.

A question names a method and carries its arguments as MessagePack; both sides know each method's types from
the one table here. A question is answered once or not at all: whoever asked repeats it if it wants to.
"""

from typing import Any

import msgspec

from tgpu.domain.container import ImageMeaning
from tgpu.domain.job import Gang, Request
from tgpu.domain.log_times import LogTimes
from tgpu.domain.node_orders import NodeOrder, NodesOrdered
from tgpu.domain.overview import ClusterOverview
from tgpu.domain.preview import HypotheticalJob, StartPreview
from tgpu.domain.start_estimate import ExpectedStart
from tgpu.domain.utilization import MeasuredSteps
from tgpu.domain.views import (
    Alert,
    ClusterShares,
    NodeDetail,
    NodeView,
    PlannedStart,
    Quantiles,
    QueueView,
    Why,
)
from tgpu.protocol.shells import FromShell, OpenShell, ToShell
from tgpu.protocol.snapshots import Piece


class Introduction(msgspec.Struct, frozen=True, kw_only=True, tag="introduction"):
    """The first word of a server that has questions."""

    protocol: int
    cluster_id: str
    secret: str


class Question(msgspec.Struct, frozen=True, kw_only=True, tag="question"):
    number: int
    method: str
    arguments: bytes


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    number: int
    value: bytes = b""
    refusal: str = ""
    """Not empty if the question has no answer now: why."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a task's output."""

    offset: int
    data: bytes
    at_end: bool
    times: LogTimes = ()


class ShellAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A shell's number; or why there is none, which asking again would not change."""

    shell: int = 0
    refusal: str = ""


class Method(msgspec.Struct, frozen=True):
    arguments: Any
    value: Any


METHODS = {
    "why": Method(tuple[int], Why | None),
    "giving_way": Method(tuple[()], list[int]),
    "queues": Method(tuple[()], list[QueueView]),
    "nodes": Method(tuple[()], list[NodeView]),
    "node": Method(tuple[str], NodeDetail | None),
    "overview": Method(tuple[bool], ClusterOverview),
    "measured": Method(tuple[int, str | None], MeasuredSteps),
    "planned_starts": Method(tuple[()], list[PlannedStart]),
    "cluster_shares": Method(tuple[()], ClusterShares),
    "decisions": Method(tuple[()], Quantiles),
    "expected_starts": Method(tuple[list[int]], list[ExpectedStart | None]),
    "alerts": Method(tuple[()], list[Alert]),
    "resolve_image": Method(tuple[str, bool], ImageMeaning),
    "starting_note": Method(tuple[int], str),
    "never_fits": Method(tuple[list[Request]], list[str | None]),
    "why_never": Method(tuple[Request, int, str], str | None),
    "gang_never_fits": Method(tuple[Gang, list[tuple[Request, int]]], str | None),
    "preview": Method(tuple[list[HypotheticalJob]], list[StartPreview]),
    "order_nodes": Method(tuple[NodeOrder], NodesOrdered),
    "read_log": Method(tuple[str, str, str, int, int, float], Span),
    "open_shell": Method(tuple[str, OpenShell], ShellAnswer),
    "say_to_shell": Method(tuple[ToShell], None),
    "hear_shell": Method(tuple[int, float], list[FromShell]),
    "snapshot_piece": Method(tuple[str, str, int], Piece),
    "take_snapshot": Method(tuple[str, str], bool),
}

ToPeer = Introduction | Question
FromPeer = Answer
