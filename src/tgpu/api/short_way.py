"""The short way to an endpoint whose path has no parameters: one look into a table instead of a router.

What the framework does for a request that needs none of it costs as much as judging a job. Whatever is not in
the table goes the long way: paths with parameters, methods and paths that nobody answers.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from litestar import Request, Response
from litestar.types import ASGIApp, Receive, Scope, Send

from tgpu.api.problems import PROBLEM_TYPE, as_problem
from tgpu.api.reply import JSON_TYPE

Answering = Callable[[Request[Any, Any, Any]], Awaitable[Response[Any]]]


class ShortWay:
    def __init__(self, app: ASGIApp, known: Mapping[tuple[str, str], Answering]) -> None:
        """`app`: the long way. `known`: by method and path."""
        self._app, self._known = app, known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answering = self._known.get((str(scope.get("method")), scope["path"]))
        if answering is None:
            await self._app(scope, receive, send)
            return
        request: Request[Any, Any, Any] = Request(scope, receive, send)
        try:
            response = await answering(request)
        except Exception as error:  # noqa: BLE001  whatever it is, the caller gets an answer
            response = as_problem(error, request.method).response()
        if response.media_type in _JSON and response.content:
            await _send(response, send)
        else:
            await response.to_asgi_response(None, request)(scope, receive, send)


_JSON = (JSON_TYPE, PROBLEM_TYPE)


async def _send(response: Response[bytes], send: Send) -> None:
    body = response.content
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in response.headers.items()]
    headers += [(b"content-type", str(response.media_type).encode()), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": response.status_code or 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
