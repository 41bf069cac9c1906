"""Router: finds the endpoint of a request's path and method, and sends its answer.

A path is looked up part by part; a literal part is preferred to a parameter.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tgpu.api.endpoint import Endpoint
from tgpu.api.problems import ProblemError, as_problem, not_found
from tgpu.api.reply import no_content

Answering = Callable[[Request], Awaitable[Response]]
_OPTIONS = "OPTIONS"


@dataclass(slots=True)
class _Node:
    """A position in the tree of paths."""

    literal: dict[str, "_Node"] = field(default_factory=dict)
    parameter: "_Node | None" = None
    names: tuple[str, ...] = ()
    """Of the parameters on the way here, if a path ends here."""
    template: str = ""
    answers: dict[str, Answering] = field(default_factory=dict)
    """By method; none if no path ends here."""

    @property
    def allowed(self) -> str:
        return ", ".join(sorted({_OPTIONS, *self.answers}))


class Router:
    """ASGI application for all endpoints."""

    def __init__(self, answering: Sequence[tuple[Endpoint, Answering]]) -> None:
        self._root = _Node()
        for endpoint, answer in answering:
            for path in endpoint.routes:
                self._add(path, endpoint, answer)

    def _add(self, path: str, endpoint: Endpoint, answer: Answering) -> None:
        node, names = self._root, []
        for part in _parts(path):
            if part.startswith("{"):
                names.append(part.strip("{}"))
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literal.setdefault(part, _Node())
        node.names, node.template = tuple(names), endpoint.path
        node.answers[endpoint.method] = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            response = await self._answer(request)
        except Exception as error:  # noqa: BLE001  whatever it is, the caller gets an answer
            response = as_problem(error, request.method).response()
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        scope, values = request.scope, list[str]()
        node = _find(self._root, _parts(scope["path"]), 0, values)
        if node is None:
            raise not_found("there is nothing at this path; GET / lists what there is")
        scope["path_params"] = dict(zip(node.names, values, strict=True))
        answer = node.answers.get(request.method)
        if answer is None and request.method != _OPTIONS:
            raise _not_allowed(node)
        scope["path_template"] = node.template
        return no_content({"Allow": node.allowed}) if answer is None else await answer(request)


def _parts(path: str) -> list[str]:
    inner = path.strip("/")
    return inner.split("/") if inner else []


def _find(node: _Node, parts: Sequence[str], at: int, values: list[str]) -> _Node | None:
    """The node of a whole path below this one; `values` gets those of the parameters on the way."""
    if at == len(parts):
        return node if node.answers else None
    literal = node.literal.get(parts[at])
    if literal is not None and (found := _find(literal, parts, at + 1, values)) is not None:
        return found
    if node.parameter is None:
        return None
    values.append(parts[at])
    found = _find(node.parameter, parts, at + 1, values)
    if found is None:
        values.pop()
    return found


def _not_allowed(node: _Node) -> ProblemError:
    return ProblemError(
        405,
        "method-not-allowed",
        f"this path answers only to {node.allowed}",
        headers={"Allow": node.allowed},
    )
