"""One turn of the loop on paper: what is to be committed, and what is to be said once it is."""

from dataclasses import dataclass, field

from tgpu.control.inbox import NodesOrderGiven
from tgpu.control.lost_book import LostBook
from tgpu.control.series_book import SeriesBook
from tgpu.core.placed import Placed
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Cause
from tgpu.domain.node_orders import NodesOrdered
from tgpu.protocol.messages import AttemptReport
from tgpu.store.port import Batch


@dataclass(slots=True)
class Turn:
    batch: Batch
    series: SeriesBook = field(default_factory=SeriesBook, compare=False)
    """What is known of jobs as a whole."""
    lost: LostBook = field(default_factory=LostBook, compare=False)
    """Attempts that are lost, by node."""
    acknowledgements: list[tuple[str, int, int]] = field(default_factory=list)
    """(node, session, report): said only after the commit, so that nothing is forgotten too early."""
    forget: list[tuple[str, str]] = field(default_factory=list)
    """(node, attempt) that this server has no use for."""
    left_behind: list[AttemptId] = field(default_factory=list)
    """Attempts whose tasks go on without them, or are over: told to stop."""
    settled: list[tuple[str, int]] = field(default_factory=list)
    """(node, session) whose hello is committed with this turn."""
    remind: list[str] = field(default_factory=list)
    """Nodes that came back and have orders open: told again."""
    answers: list[tuple[NodesOrderGiven, NodesOrdered]] = field(default_factory=list)
    """What became of administrators' orders: told once it is committed."""
    waited: dict[TaskId, TaskBrief] = field(default_factory=dict)
    """Those who are given a node, as they waited: if that is refused, they wait so again."""
    in_gangs: list[tuple[Placed, AttemptReport]] = field(default_factory=list)
    """What nodes said of tasks of gangs that have yet to start together."""
    waits: list[tuple[str, float]] = field(default_factory=list)
    """(class, seconds) of each task that began to run."""
    began: list[tuple[int, int]] = field(default_factory=list)
    """(job, moment) of each task that began to run."""
    runs: list[tuple[TaskBrief, int, Cause]] = field(default_factory=list)
    """(task, milliseconds, cause) of each attempt that ran and ended."""
    completions: list[tuple[str, float]] = field(default_factory=list)
    """(outcome, seconds since its submission) of each task that is over."""
