"""Faults of the control loop, contained: what failed is set aside with an alert, and the loop goes on.

An exception in the middle of a turn leaves a picture that assumed what was never committed. So the turn is
dropped, the picture is loaded again from the store, and every agent reports everything again. The source of
the fault is found in this order:

- The step that failed names it: it worked on one job, or on what one node said (`about_job`, `about_node`).
- Otherwise the loop is careful for a while: first a turn does nothing but what is due by itself, so that no
  node is blamed for that; then a turn takes in what one node said, or what users asked for, or makes a plan,
  and never two of them. A fault in such a turn has one source.

Work that no decision depends on (usage samples, expected starts, metrics, notices of events) is contained by
itself (`beside`): its faults are counted and alerted, and the turn goes on.

A node that is set aside is not listened to for a while, longer each time; it counts as silent. A job that is
set aside stays in the store as it is, and keeps its room on its nodes, until another leader takes over.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tgpu.control.alerts import CONTROL_FAULT, JOB_SET_ASIDE, NODE_SET_ASIDE, Alerts
from tgpu.control.inbox import Inbox, NodeEvent
from tgpu.control.observer import Observer
from tgpu.observe.logs import logger, trace_of
from tgpu.store.port import DeposedError, StoreUnavailableError

CAREFUL_S = 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
FIRST_ASIDE_S, LONGEST_ASIDE_S = 60.0, 3600.0
SIDE_FAULT_S = 180.0
"""For how long a fault beside the turn stays in the alert after it was last seen: longer than the pause
between two runs of such work."""
NAMED = 10
"""So many are named in an alert."""
_LONGEST_WHY = 300


class NodeFaultError(Exception):
    """What one node said could not be taken in; its cause is the exception."""

    def __init__(self, node_id: str) -> None:
        super().__init__(f"node {node_id}")
        self.node_id = node_id


class JobFaultError(Exception):
    """One job could not be dealt with; its cause is the exception."""

    def __init__(self, job_id: int) -> None:
        super().__init__(f"job {job_id}")
        self.job_id = job_id


@contextmanager
def about_node(node_id: str) -> Iterator[None]:
    """Whatever fails in here is the fault of what this node said, unless it is a job's."""
    try:
        yield
    except (DeposedError, StoreUnavailableError, JobFaultError):
        raise
    except Exception as error:
        raise NodeFaultError(node_id) from error


@contextmanager
def about_job(job_id: int) -> Iterator[None]:
    try:
        yield
    except (DeposedError, StoreUnavailableError, JobFaultError):
        raise
    except Exception as error:
        raise JobFaultError(job_id) from error


@dataclass(slots=True)
class _Aside:
    why: str
    until: float
    times: int = 1


@dataclass(slots=True)
class TurnScope:
    """What the present turn deals with."""

    nodes: set[str] = field(default_factory=set)
    users: bool = False
    plans: bool = False
    careful: bool = False
    committed: bool = False

    @property
    def loses_words(self) -> bool:
        """Whether its failure loses what nodes said, or what they were to be told."""
        return bool(self.nodes) or self.committed

    @property
    def is_empty(self) -> bool:
        return not self.nodes and not self.users

    @property
    def only_node(self) -> str | None:
        """The one source that this turn has, if that is a node."""
        return next(iter(self.nodes)) if len(self.nodes) == 1 and not self.users and not self.plans else None


class Containment:
    """Of one term."""

    def __init__(self, alerts: Alerts, observer: Observer) -> None:
        self._alerts = alerts
        self._observer = observer
        self._nodes: dict[str, _Aside] = {}
        self._undescribed: dict[str, str] = {}
        """Nodes whose rows are wrong, and why: left out until they describe themselves again."""
        self.jobs: dict[int, str] = {}
        """Jobs that are set aside, and why."""
        self.scope = TurnScope()
        self._plug_ins: set[str] = set()
        self._careful_until = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._no_plan_until = 0.0
        self._sound = True
        """While the loop is careful: whether a turn that took in nothing went well."""
        self._turn_fault: str | None = None
        self._side_faults: dict[str, tuple[str, float]] = {}
        """By work: its last fault, and until when that is in the alert."""
        self._log = logger("control")

    def news(self, inbox: Inbox, most: int, now: float) -> tuple[list[NodeEvent], bool]:
        """What this turn takes in: all that there is, or what one source has said."""
        careful = self.is_careful(now)
        if careful and not self._sound:
            self.scope = TurnScope(careful=True)
            return [], False
        events, users = inbox.take_one_source() if careful else inbox.take(most)
        self.scope = TurnScope({event.node_id for event in events}, users, careful=careful)
        return events, users

    def is_careful(self, now: float) -> bool:
        return now < self._careful_until

    def may_plan(self, now: float) -> bool:
        """Whether a plan is made in this turn: after a fault, only in turns that have nothing else to do."""
        alone = not self.scope.careful or (self.scope.is_empty and self._sound)
        self.scope.plans = alone and now >= self._no_plan_until
        return self.scope.plans

    def listens_to(self, node_id: str, now: float) -> bool:
        aside = self._nodes.get(node_id)
        return aside is None or now >= aside.until

    def failed(self, error: Exception, now: float) -> float:
        """A turn has failed. Returns how long to wait until the next one."""
        cause = error.__cause__ if isinstance(error, NodeFaultError | JobFaultError) else error
        why = _words(cause or error)
        self._observer.count_fault(why)
        node_id = error.node_id if isinstance(error, NodeFaultError) else self.scope.only_node
        self._log.error("a turn of the control loop failed", trace=trace_of(error))
        if isinstance(error, JobFaultError):
            self.set_job_aside(error.job_id, why)
        elif node_id is not None and (isinstance(error, NodeFaultError) or self.scope.careful):
            self._set_node_aside(node_id, why, now)
        else:
            return self._unexplained(why, now)
        self.scope = TurnScope()
        return FIRST_PAUSE_S

    def _unexplained(self, why: str, now: float) -> float:
        if self.is_careful(now):
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        plan_fails = self.scope.plans and self.scope.is_empty
        if plan_fails:
            self._no_plan_until = now + self._pause_s
        self._sound = plan_fails and self.scope.careful
        self._careful_until = now + CAREFUL_S + self._pause_s
        self.scope = TurnScope()
        what = "the scheduling cycle fails" if plan_fails else "the control loop fails"
        self._turn_fault = f"{what}, and is tried again: {why}"
        self._tell_faults()
        return self._pause_s

    @contextmanager
    def beside(self, work: str) -> Iterator[None]:
        """Work that no decision depends on: whatever fails in here leaves the turn as it is. `work`: a noun
        for the alert."""
        try:
            yield
        except (DeposedError, StoreUnavailableError):
            raise
        except Exception as error:  # noqa: BLE001  the loop is worth more
            self.side_work_failed(work, error)

    def side_work_failed(self, work: str, error: Exception) -> None:
        why = _words(error)
        self._log.error("work beside the control loop failed", work=work, trace=trace_of(error))
        self._observer.count_fault(why)
        until = asyncio.get_running_loop().time() + SIDE_FAULT_S
        self._side_faults[work] = f"{work} failed and is tried again: {why}", until
        self._tell_faults()

    def _tell_faults(self) -> None:
        texts = [] if self._turn_fault is None else [self._turn_fault]
        texts += [text for text, _ in self._side_faults.values()]
        text = f"{'; '.join(texts)}; see the server's log, and report a bug" if texts else None
        self._alerts.tell(CONTROL_FAULT, text)

    def plug_in_failed(self, name: str, error: str) -> None:
        """Once per plug-in: it would fail again in every cycle."""
        if name not in self._plug_ins:
            self._plug_ins.add(name)
            self._log.error("a plug-in failed and is left out", name=name, error=error)

    def went_well(self, inbox: Inbox, now: float) -> None:
        """A turn is over: once nothing failed for a while, all is as before."""
        if self.scope.careful and not (self.scope.is_empty and self._sound):
            inbox.go_on()  # to the next source, or to a plan
        self._sound = True
        if self._careful_until and not self.is_careful(now):
            self._careful_until, self._pause_s = 0.0, FIRST_PAUSE_S
            self._turn_fault = None
            self._tell_faults()
        if over := [work for work, (_, until) in self._side_faults.items() if now >= until]:
            for work in over:
                del self._side_faults[work]
            self._tell_faults()
        if self._undescribed or any(now >= aside.until for aside in self._nodes.values()):
            for node_id in self.scope.nodes:
                self._undescribed.pop(node_id, None)
            self._tell_nodes(now)

    def set_job_aside(self, job_id: int, why: str) -> None:
        self.jobs[job_id] = why[:_LONGEST_WHY]
        names = _named([f"job {job} ({said})" for job, said in self.jobs.items()])
        text = (
            f"set aside, since the scheduler failed on them: {names}; see the server's log, and report a bug"
        )
        self._alerts.tell(JOB_SET_ASIDE, text)

    def set_jobs_aside(self, jobs: Mapping[int, str]) -> None:
        for job_id, why in jobs.items():
            if job_id not in self.jobs:
                self.set_job_aside(job_id, why)

    def set_nodes_aside(self, nodes: Mapping[str, str]) -> None:
        """Nodes whose rows are wrong: their next hello describes them again."""
        if nodes:
            self._undescribed |= {node_id: why[:_LONGEST_WHY] for node_id, why in nodes.items()}
            self._tell_nodes(asyncio.get_running_loop().time())

    def _set_node_aside(self, node_id: str, why: str, now: float) -> None:
        times = self._nodes[node_id].times + 1 if node_id in self._nodes else 1
        pause_s = min(FIRST_ASIDE_S * 2 ** (times - 1), LONGEST_ASIDE_S)
        self._nodes[node_id] = _Aside(why, now + pause_s, times)
        self._tell_nodes(now)

    def _tell_nodes(self, now: float) -> None:
        shut_out = {name: aside.why for name, aside in self._nodes.items() if now < aside.until}
        shut_out = self._undescribed | shut_out
        names = _named([f"{name} ({why})" for name, why in shut_out.items()])
        text = f"set aside, since the scheduler failed on what they said: {names}; look at their agents"
        self._alerts.tell(NODE_SET_ASIDE, text if shut_out else None)


def _named(texts: list[str]) -> str:
    more = len(texts) - NAMED
    return ", ".join(texts[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_LONGEST_WHY]
