"""The WebSocket into a running job: who comes in, and what passes through while they are there.

Between a user and a shell nothing is kept but what is under way, and either side has a window for that. Who
has come in is asked again every few seconds who they are.
"""

import asyncio
import re
from dataclasses import replace
from typing import cast

from starlette.requests import HTTPConnection, Request
from starlette.types import Receive, Scope, Send

from tgpu.api.audit_note import note
from tgpu.api.auth.web_session import TERMINAL_PROTOCOL
from tgpu.api.endpoint import Call
from tgpu.api.identity import Identity
from tgpu.api.needs import ENTER_JOB
from tgpu.api.permission import admit, is_still_admitted
from tgpu.api.ports import ShellRefusedError
from tgpu.api.problems import ProblemError, as_problem, not_found
from tgpu.api.query import Query
from tgpu.api.routes.logs import position_of
from tgpu.api.routes.terminal import ATTEMPT, TASK
from tgpu.api.services import Services
from tgpu.api.shell_form import Opened, ShellAsked, Told, read_asked, told, told_refusal
from tgpu.api.shell_relay import Relay, UserGoneError
from tgpu.domain.job import Attempt
from tgpu.domain.lifecycle import AttemptState
from tgpu.protocol.shells import OpenShell

_PATH = re.compile(r"/jobs/([^/]+)/terminal")
_TEMPLATE = "/jobs/{job_id}/terminal"
_FIRST_WORD_S = 10.0
_ASK_AGAIN_S = 2.0
_MOST_TASKS = 2**31
_MOST_NOTED = 2000
_NORMAL, _POLICY = 1000, 1008


class TerminalDoor:
    """An ASGI application for one path, behind the gate."""

    def __init__(self, services: Services, identity: Identity) -> None:
        self._services, self._identity = services, identity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call, attempt = await self._admitted(scope)
        await receive()  # the wish to connect, of which the gate knows already
        await send({"type": "websocket.accept", "subprotocol": _subprotocol(scope), "headers": []})
        relay = Relay(self._services.shells, receive, send)
        try:
            async with asyncio.timeout(_FIRST_WORD_S):
                asked = read_asked(await relay.first_word())
            _check_terminal(call, asked)
            await _note(call, attempt, asked)
            await relay.open(attempt.node_id, _order(call, attempt, asked))
        except (UserGoneError, TimeoutError):
            await relay.close(_POLICY)
        except Exception as error:  # noqa: BLE001  whatever it is, the caller gets an answer
            await relay.tell(told_refusal(_as_problem(error)))
            await relay.close(_POLICY)
        else:
            opened = Opened(attempt_id=str(attempt.attempt_id), node_id=attempt.node_id)
            await relay.tell(told(Told(opened=opened)))
            await relay.run(_until_refused(call))
            await relay.close(_NORMAL)

    async def _admitted(self, scope: Scope) -> tuple[Call, Attempt]:
        """Raises ProblemError: nothing has been upgraded yet."""
        match = _PATH.fullmatch(scope["path"])
        if match is None:
            raise not_found("no WebSocket is at this path; GET / lists what there is")
        scope["path_params"] = {"job_id": match[1]}
        query = Query.parse(scope["query_string"], frozenset({TASK.name, ATTEMPT.name}))
        connection = cast("Request", HTTPConnection(scope))
        call = Call(self._services, connection, query, self._identity)
        call = replace(call, found=await admit(call, ENTER_JOB))
        self._services.metrics.observe_request("GET", _TEMPLATE, 101, 0.0)
        return call, await _running(call)


def _subprotocol(scope: Scope) -> str | None:
    """Browsers close a connection whose server takes none of the subprotocols that they offered."""
    offered: list[str] = scope.get("subprotocols", [])  # of a WebSocket
    return TERMINAL_PROTOCOL if TERMINAL_PROTOCOL in offered else None


async def _running(call: Call) -> Attempt:
    """The one that was asked for. Raises ProblemError."""
    job = call.job
    index = call.query.whole(TASK.name, 0, _MOST_TASKS)
    task = (index or 0) if job.spec.series is None else position_of(job, index)
    number = call.query.whole(ATTEMPT.name, 1, _MOST_TASKS)
    if task >= job.spec.task_count:
        raise not_found(f"job {job.job_id} has no task {task}; its last is {job.spec.task_count - 1}")
    name = f"{job.job_id}.{job.spec.index_at(task)}"
    attempts = [
        attempt
        for attempt in await call.services.store.attempts(job.job_id, task)
        if number in (None, attempt.attempt_id.number)
    ]
    if number is not None and not attempts:
        raise not_found(f"task {name} has no attempt {number}; `tgpu show {job.job_id}` lists them")
    for attempt in reversed(attempts):
        if attempt.state is AttemptState.RUNNING:
            return attempt
    what = f"job {job.job_id}" if job.spec.task_count == 1 else f"task {name}"
    if job.status.is_final or number is not None:
        why = f"{what} is over: only what runs can be entered; `tgpu logs {job.job_id}` has its output"
    else:
        why = f"{what} does not run now, and only what runs can be entered: `tgpu why {job.job_id}`"
    raise ProblemError(409, "not-running", why, extras={"job_status": job.status})


def _check_terminal(call: Call, asked: ShellAsked) -> None:
    job = call.job
    if not asked.command and not job.spec.pty:
        raise ProblemError(
            409,
            "no-terminal",
            f"job {job.job_id} has no terminal: its stdin is /dev/null. `tgpu logs -f {job.job_id}` shows "
            f"what it prints, `tgpu exec {job.job_id} -- bash` goes inside; one that `tgpu run --pty` makes "
            "has one",
        )


async def _note(call: Call, attempt: Attempt, asked: ShellAsked) -> None:
    """Before the door opens: nobody was inside who is not in the audit log."""
    facts, target = {"attempt": str(attempt.attempt_id), "user": call.job.spec.user}, f"job/{call.job.job_id}"
    if asked.command:
        facts["command"] = " ".join(asked.command)[:_MOST_NOTED]
        await note(call, "job.enter", target, after=facts)
    else:
        await note(call, "job.attach", target, after=facts)


def _order(call: Call, attempt: Attempt, asked: ShellAsked) -> OpenShell:
    return OpenShell(
        shell=0,
        attempt=str(attempt.attempt_id),
        command=tuple(asked.command),
        tty=asked.tty,
        rows=asked.rows,
        cols=asked.cols,
        term=asked.term,
        user=call.caller.user,
    )


def _as_problem(error: Exception) -> ProblemError:
    if isinstance(error, ShellRefusedError):
        return ProblemError(409, "not-let-in", str(error))
    return as_problem(error)


async def _until_refused(call: Call) -> None:
    """Returns when they may not be here any more: a token may have been revoked, a role taken away."""
    while await is_still_admitted(call, ENTER_JOB):  # noqa: ASYNC110  it is asked, nobody tells
        await asyncio.sleep(_ASK_AGAIN_S)
