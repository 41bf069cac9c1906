"""The door: before any route is looked up, it is settled that the request may come in, and who sent it."""

import time
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tgpu.api.body_budget import BodyBudget
from tgpu.api.http.dashboard_files import DashboardFiles
from tgpu.api.identity import Caller, Identity
from tgpu.api.origin import check_origin
from tgpu.api.problems import PROBLEM_TYPE, ProblemError, as_problem, not_found
from tgpu.api.reply import EXPOSITION_TYPE
from tgpu.observe.metrics import Metrics
from tgpu.store.port import StoreUnavailableError

_VERSION_PREFIX = "/v1"
_METRICS = "/metrics"
_DASHBOARD = "/ui"
"""In the metrics, all of its files."""


class Gate:
    """Stands around the routes; they may rely on a caller being known."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        identity: Identity,
        metrics: Metrics,
        open_paths: frozenset[str],
        guarded: frozenset[tuple[str, str]],
        names: frozenset[str],
        terminals: ASGIApp,
        bodies: BodyBudget,
        dashboard: DashboardFiles,
    ) -> None:
        """`guarded`: methods of open paths that need a caller all the same. `terminals`: what WebSockets lead
        to."""
        self._app, self._identity, self._metrics = app, identity, metrics
        self._open_paths, self._guarded = open_paths, guarded
        self._names, self._terminals = names, terminals
        self._bodies, self._dashboard = bodies, dashboard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await self._serve_terminal(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()

        async def send_and_note(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = str(scope.get("path_template") or "unknown")
                elapsed = time.perf_counter() - started
                self._metrics.observe_request(_method(scope), route, message["status"], elapsed)
            await send(message)

        if self._dashboard.answers(scope):
            await self._serve_dashboard(scope, receive, send_and_note)
            return
        try:
            await self._let_in(scope)
        except StoreUnavailableError as error:
            if scope["path"] == _METRICS and _method(scope) == "GET":
                await self._send_measured(send_and_note)
            else:
                await _send_problem(as_problem(error, _method(scope)), send_and_note)
            return
        except Exception as error:  # noqa: BLE001  whatever it is, the caller gets an answer
            await _send_problem(as_problem(error), send_and_note)
            return
        caller: Caller | None = scope.get("tgpu.caller")  # our own key
        share = self._bodies.open(scope, "" if caller is None else caller.user)
        try:
            await self._app(scope, receive, send_and_note)
        finally:
            share.close()

    async def _serve_dashboard(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Files that contain no data: anybody may have them."""
        scope["path_template"] = _DASHBOARD
        try:
            if not self._dashboard.redirects(scope):
                check_origin(scope, self._names)
            await self._dashboard(scope, receive, send)
        except Exception as error:  # noqa: BLE001  whatever it is, the caller gets an answer
            await _send_problem(as_problem(error), send)

    async def _send_measured(self, send: Send) -> None:
        """Without the store no token can be checked; that it is away is no secret, and has to be noticed."""
        headers = {"content-type": f"{EXPOSITION_TYPE}; charset=utf-8"}
        await _send(200, headers, self._metrics.without_store(), send)

    async def _serve_terminal(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whoever is refused gets the same answer as over plain HTTP, since nothing has been upgraded yet."""
        try:
            await self._let_in(scope)
            await self._terminals(scope, receive, send)
        except Exception as error:  # noqa: BLE001  whatever it is, the caller gets an answer
            await _send_problem(as_problem(error), send, "websocket.http.response")

    async def _let_in(self, scope: Scope) -> None:
        _unversion(scope)
        check_origin(scope, self._names)
        path = scope["path"]
        if path not in self._open_paths or (scope.get("method"), path) in self._guarded:
            scope["tgpu.caller"] = await self._identity.caller(scope)  # our own key
        _check_path(scope)


def _method(scope: Scope) -> str:
    method = str(scope.get("method"))
    return method if method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"


def _unversion(scope: Scope) -> None:
    """`/v1/jobs` is `/jobs`: one set of routes under two names."""
    path = scope["path"]
    if path == _VERSION_PREFIX or path.startswith(_VERSION_PREFIX + "/"):
        scope["path"] = path[len(_VERSION_PREFIX) :] or "/"
        scope["raw_path"] = scope["raw_path"].removeprefix(_VERSION_PREFIX.encode()) or b"/"


def _check_path(scope: Scope) -> None:
    """The router would take two slashes for one. A NUL can be part of no name, and databases refuse it."""
    if "//" in scope["path"]:
        raise not_found("there is nothing at this path: it has an empty part; GET / lists what there is")
    if "\0" in scope["path"]:
        raise not_found("there is nothing at this path: it has a NUL character; GET / lists what there is")


async def _send_problem(problem: ProblemError, send: Send, kind: str = "http.response") -> None:
    """`kind`: what begins the names of the two messages of an answer."""
    await _send(problem.status, {"content-type": PROBLEM_TYPE, **problem.headers}, problem.body(), send, kind)


async def _send(
    status: int, headers: Mapping[str, str], body: bytes, send: Send, kind: str = "http.response"
) -> None:
    written = {**headers, "content-length": str(len(body))}
    head: Any = {
        "type": f"{kind}.start",
        "status": status,
        "headers": [(name.lower().encode(), value.encode()) for name, value in written.items()],
    }
    rest: Any = {"type": f"{kind}.body", "body": body, "more_body": False}
    await send(head)
    await send(rest)
