"""What nodes were told and have not yet confirmed: said again until a report shows it done."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

from tgpu.control.hub import Hub
from tgpu.control.secret_values import Bodies, names_secrets, revealed
from tgpu.core.holdings import Holding
from tgpu.core.picture import Picture, Placed
from tgpu.domain.dialect import DialectName
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Group, JobSpec
from tgpu.domain.lifecycle import AttemptState, Cause
from tgpu.domain.output_files import OutputPaths, paths_of
from tgpu.domain.priority import grace_s
from tgpu.domain.series import Mode
from tgpu.domain.signals import TERM
from tgpu.protocol.gangs import GangPlace, Go
from tgpu.protocol.messages import Launch, Orders, Stop
from tgpu.store.port import StoreUnavailableError

REPEAT_AFTER_S = 2.0


@dataclass(slots=True)
class _ForNode:
    launches: list[Launch] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    forget: list[str] = field(default_factory=list)
    go: list[Go] = field(default_factory=list)


@dataclass(slots=True)
class _Unconfirmed:
    launch: Launch | None
    said: float


class OrderBook:
    """Orders on their way, by attempt; the launch itself is kept until the node has confirmed it."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._out: dict[AttemptId, _Unconfirmed] = {}
        self._due: dict[str, _ForNode] = {}

    def launch(self, placed: Placed, spec: JobSpec, now: float, place: GangPlace | None = None) -> None:
        """`place`: of a task of a gang, which is only prepared by it."""
        order = launch_order(placed, spec, place)
        self._out[placed.attempt_id] = _Unconfirmed(order, now)
        self._for(placed.node_id).launches.append(order)

    def stop(self, placed: Placed, now: float) -> None:
        launch = self._out[placed.attempt_id].launch if placed.attempt_id in self._out else None
        self._out[placed.attempt_id] = _Unconfirmed(launch, now)
        self._for(placed.node_id).stops.append(_stop(placed))

    def stop_left_behind(self, holding: Holding, now: float) -> None:
        self._out[holding.attempt_id] = _Unconfirmed(None, now)
        self._for(holding.node_id).stops.append(_superseded(holding))

    def go(self, node_id: str, go: Go) -> None:
        """Not repeated by itself: a task that is ready says so until it goes."""
        self._for(node_id).go.append(go)

    def forget(self, node_id: str, attempt: str) -> None:
        self._for(node_id).forget.append(attempt)

    def knows_launch(self, attempt_id: AttemptId) -> bool:
        held = self._out.get(attempt_id)
        return held is not None and held.launch is not None

    def relaunch(self, placed: Placed, now: float) -> None:
        held = self._out[placed.attempt_id]
        if held.launch is not None:
            held.said = now
            self._for(placed.node_id).launches.append(held.launch)

    def say_again(self, picture: Picture, now: float) -> None:
        """What a node has not confirmed after a while."""
        for attempt_id, held in list(self._out.items()):
            due = now - held.said >= REPEAT_AFTER_S
            placed, holding = picture.live(attempt_id), picture.table.holdings.get(attempt_id)
            if holding is not None:
                if due and not holding.stays:
                    self.stop_left_behind(holding, now)
            elif placed is None or placed.state is AttemptState.RUNNING:
                del self._out[attempt_id]
            elif due:
                held.said = now
                if placed.state is AttemptState.STOPPING:
                    self._for(placed.node_id).stops.append(_stop(placed))
                elif held.launch is not None:
                    self._for(placed.node_id).launches.append(held.launch)

    def settled(self, attempts: Iterable[AttemptId]) -> None:
        for attempt_id in attempts:
            self._out.pop(attempt_id, None)

    async def reveal(self, bodies: Bodies) -> None:
        """Finds the secrets that launches name; without the store these launches wait to be said again."""
        for orders in self._due.values():
            naming = [launch for launch in orders.launches if names_secrets(launch)]
            if naming:
                with_none = [launch for launch in orders.launches if not names_secrets(launch)]
                orders.launches = with_none
                with suppress(StoreUnavailableError):
                    orders.launches = with_none + await revealed(naming, bodies)

    def send(self) -> None:
        """One message per node."""
        due, self._due = self._due, {}
        for node_id, orders in due.items():
            session = self._hub.session_of(node_id)
            if session is not None:
                launches = [launch for launch in orders.launches if self._is_understood(launch, node_id)]
                self._hub.send(
                    node_id,
                    Orders(
                        session=session,
                        launches=tuple(self._hub.keyed(node_id, launches)),
                        stops=tuple(orders.stops),
                        forget=tuple(orders.forget),
                        go=tuple(orders.go),
                    ),
                )

    def _is_understood(self, launch: Launch, node_id: str) -> bool:
        """An older agent would start the task otherwise than it was asked for: it gets no such launch, and
        the job says what it waits for."""
        missing = self._hub.missing_for(launch, node_id)
        if missing:
            text = f"the agent of {node_id} is too old for {missing}: update tgpu on that node"
            self._hub.notes.withheld(node_id, launch.attempt, text)
        return not missing

    def _for(self, node_id: str) -> _ForNode:
        if node_id not in self._due:
            self._due[node_id] = _ForNode()
        return self._due[node_id]


def _stop(placed: Placed) -> Stop:
    """Who asked for it is the store's to know, and is said when it is over."""
    assert placed.stop_cause is not None, "an attempt that is being stopped knows why"
    at_once = placed.task.grace_s == 0
    return Stop(
        attempt=str(placed.attempt_id), cause=placed.stop_cause, detail=placed.stop_detail, at_once=at_once
    )


def _superseded(holding: Holding) -> Stop:
    why = "its task goes on with another attempt, or is over"
    return Stop(attempt=str(holding.attempt_id), cause=Cause.SUPERSEDED, detail=why)


def _env(group: Group, spec: JobSpec, placed: Placed) -> Mapping[str, str]:
    if spec.series is None:
        return group.env
    return {**group.env, **spec.series.variables(placed.attempt_id.task_index)}


def _completion_index(spec: JobSpec, placed: Placed) -> int | UnsetType | None:
    """As in Kubernetes, where only the tasks of Indexed jobs have one. Other jobs keep the task's number."""
    if spec.series is None:
        of_manifest = spec.dialect is not None and spec.dialect.name is DialectName.KUBERNETES
        return None if of_manifest else UNSET
    match spec.series.mode:
        case Mode.INDEXED:
            return spec.series.indices.at(placed.attempt_id.task_index)
        case Mode.ARRAY:
            return UNSET
        case Mode.COUNTED | Mode.WORK_QUEUE:
            return None


def _files(group: Group, spec: JobSpec, placed: Placed) -> OutputPaths | None:
    if spec.files is None:
        return None
    attempt = placed.attempt_id
    return paths_of(
        spec.files,
        group.cwd,
        attempt.job_id,
        spec.index_at(attempt.task_index),
        spec.name,
        placed.node_id,
        spec.user,
        alone=spec.task_count == 1,
        first=attempt.number == 1,
    )


def launch_order(placed: Placed, spec: JobSpec, place: GangPlace | None = None) -> Launch:
    group = spec.group_of(placed.attempt_id.task_index)
    return Launch(
        attempt=str(placed.attempt_id),
        job_name=spec.name,
        user=spec.user,
        command=group.command if isinstance(group.command, str) else list(group.command),
        cwd=group.cwd,
        env=_env(group, spec, placed),
        secret_env=group.secret_env,
        devices=placed.devices,
        cpu_milli=group.request.cpu_milli,
        memory_mib=group.request.memory_mib,
        gpu_milli=group.request.gpu_milli,
        cpu_limit_milli=group.cpu_most_milli,
        memory_limit_mib=group.memory_most_mib,
        disk_mib=group.request.disk_mib,
        priority_class=spec.priority_class,
        burst=placed.task.burst,
        time_limit_s=spec.time_limit_s,
        grace_s=grace_s(spec.priority_class, spec.grace_s),
        once=spec.once,
        gang=place,
        pty=spec.pty,
        shared_tmp=spec.shared_tmp,
        container=group.container,
        stop_signal=spec.stop_signal or TERM,
        warn=spec.warn,
        dialect=spec.dialect,
        files=_files(group, spec, placed),
        snapshot=spec.snapshot,
        completion_index=_completion_index(spec, placed),
    )
