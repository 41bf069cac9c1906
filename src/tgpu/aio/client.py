"""`await AsyncClient().submit(["python", "train.py"])`: every call of `tgpu.Client`, for asyncio.

What a call does is written once, in `tgpu.client`; here stands only that it is awaited, or iterated with
`async for`. Types, parameters and documentation are those of the plain one.
"""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from tgpu.aio.means import LoopMeans
from tgpu.aio.switching import on_a_stack
from tgpu.client import Client, TgpuError, WaitTimeoutError

P = ParamSpec("P")
R = TypeVar("R")

_MOST_IDLE = 8
_END: Final = object()
_WHOLE = (TgpuError, WaitTimeoutError)
"""After these the connection is as good as before."""


def _awaited(
    call: Callable[Concatenate[Client, P], R],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, R]]:
    @functools.wraps(call)
    async def made(self: "AsyncClient", /, *arguments: P.args, **named: P.kwargs) -> R:
        with self._a_client() as client:
            return await on_a_stack(call, client, *arguments, **named)

    return made


def _each(
    call: Callable[Concatenate[Client, P], Iterator[R]],
) -> Callable[Concatenate["AsyncClient", P], AsyncIterator[R]]:
    @functools.wraps(call)
    async def made(self: "AsyncClient", /, *arguments: P.args, **named: P.kwargs) -> AsyncIterator[R]:
        with self._a_client() as client:
            found = await on_a_stack(call, client, *arguments, **named)
            while (one := await on_a_stack(_next, found)) is not _END:
                yield one  # type: ignore[misc]  # all but the end are what the call yields

    return made


def _next(found: Iterator[object]) -> object:
    return next(found, _END)


class AsyncClient:
    """Speaks to one server, as `Client` does. Calls may be made at once, each on a connection of its own; one
    that is cancelled lets go of its connection, and what the server has begun it carries through."""

    def __init__(self, server: str | None = None, *, token: str | None = None, timeout: float = 30.0) -> None:
        self._make = functools.partial(Client, server, token=token, timeout=timeout, means=LoopMeans())
        self._idle: list[Client] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Of its connections, those that no call is using."""
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _a_client(self) -> Iterator[Client]:
        """One that nobody uses. Whatever breaks off in the middle of an answer takes the connection along."""
        client = self._idle.pop() if self._idle else self._make()
        try:
            yield client
        except BaseException as error:
            if not isinstance(error, _WHOLE):
                client.close()
            raise
        finally:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(client)
            else:
                client.close()

    submit = _awaited(Client.submit)
    submit_many = _awaited(Client.submit_many)
    preview = _awaited(Client.preview)
    job_fields = _awaited(Client.job_fields)
    read_job_file = _awaited(Client.read_job_file)
    job = _awaited(Client.job)
    jobs = _each(Client.jobs)
    job_pages = _each(Client.job_pages)
    jobs_by_id = _awaited(Client.jobs_by_id)
    task = _awaited(Client.task)
    tasks = _each(Client.tasks)
    task_statuses = _awaited(Client.task_statuses)
    wait = _awaited(Client.wait)
    logs = _each(Client.logs)
    log_chunks = _each(Client.log_chunks)
    use = _awaited(Client.use)
    why = _awaited(Client.why)
    events = _each(Client.events)

    cancel = _awaited(Client.cancel)
    cancel_many = _awaited(Client.cancel_many)
    cancel_tasks = _awaited(Client.cancel_tasks)
    retry = _awaited(Client.retry)
    retry_many = _awaited(Client.retry_many)
    suspend = _awaited(Client.suspend)
    resume = _awaited(Client.resume)
    hold = _awaited(Client.hold)
    hold_many = _awaited(Client.hold_many)
    release = _awaited(Client.release)
    release_many = _awaited(Client.release_many)
    edit = _awaited(Client.edit)
    rerun = _awaited(Client.rerun)
    put_snapshot = _awaited(Client.put_snapshot)
    graph = _awaited(Client.graph)

    nodes = _awaited(Client.nodes)
    node = _awaited(Client.node)
    node_activity = _awaited(Client.node_activity)
    drain_nodes = _awaited(Client.drain_nodes)
    undrain_nodes = _awaited(Client.undrain_nodes)
    remove_nodes = _awaited(Client.remove_nodes)
    approve_node = _awaited(Client.approve_node)
    windows = _awaited(Client.windows)
    create_window = _awaited(Client.create_window)
    cancel_window = _awaited(Client.cancel_window)
    join_tokens = _awaited(Client.join_tokens)
    create_join_token = _awaited(Client.create_join_token)
    revoke_join_token = _awaited(Client.revoke_join_token)

    queues = _awaited(Client.queues)
    overview = _awaited(Client.overview)
    utilization = _awaited(Client.utilization)
    recent_events = _awaited(Client.recent_events)
    shares = _awaited(Client.shares)
    timeline = _awaited(Client.timeline)
    stats = _awaited(Client.stats)
    report = _awaited(Client.report)
    cluster = _awaited(Client.cluster)
    settings = _awaited(Client.settings)
    authority = _awaited(Client.authority)
    health = _awaited(Client.health)
    metrics = _awaited(Client.metrics)
    openapi = _awaited(Client.openapi)

    whoami = _awaited(Client.whoami)
    tenants = _awaited(Client.tenants)
    tenant_list = _awaited(Client.tenant_list)
    tenant = _awaited(Client.tenant)
    create_tenant = _awaited(Client.create_tenant)
    change_tenant = _awaited(Client.change_tenant)
    move_tenant = _awaited(Client.move_tenant)
    remove_tenant = _awaited(Client.remove_tenant)
    quota = _awaited(Client.quota)
    change_quota = _awaited(Client.change_quota)
    members = _awaited(Client.members)
    set_member = _awaited(Client.set_member)
    remove_member = _awaited(Client.remove_member)
    tokens = _awaited(Client.tokens)
    create_token = _awaited(Client.create_token)
    revoke_token = _awaited(Client.revoke_token)
    create_sign_in_link = _awaited(Client.create_sign_in_link)
    secrets = _awaited(Client.secrets)
    set_secret = _awaited(Client.set_secret)
    remove_secret = _awaited(Client.remove_secret)
    audit = _each(Client.audit)
