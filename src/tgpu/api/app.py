"""Puts the API together: routes from the table of endpoints, behind the gate."""

from dataclasses import replace
from typing import Any

from litestar import Litestar, Request, Response
from litestar.handlers import HTTPRouteHandler

from tgpu.api.access_book import Book
from tgpu.api.endpoint import Call, Endpoint
from tgpu.api.gate import Gate
from tgpu.api.identity import Identity
from tgpu.api.permission import admit
from tgpu.api.problems import answer_error, disk_full
from tgpu.api.query import Query
from tgpu.api.services import Services
from tgpu.api.short_way import Answering, ShortWay
from tgpu.api.table import endpoints
from tgpu.api.terminal_door import TerminalDoor


def create_app(services: Services) -> Litestar:
    book = Book(services.store, services.settings)
    identity = Identity(
        services.store, services.settings, services.accounts, services.now_ms, book, services.job_keys
    )
    services.store.subscribe_events(services.feed.wake)
    table = endpoints(services)
    answering = [(endpoint, _answering(endpoint, services, identity)) for endpoint in table]
    litestar = Litestar(
        route_handlers=[_route(*each) for each in answering],
        exception_handlers={Exception: answer_error},
        openapi_config=None,  # our own document says more than signatures could
        logging_config=None,
        request_max_body_size=None,  # bounded where it is read, by what it is
    )
    open_paths = frozenset(endpoint.path for endpoint in table if endpoint.needs is None)
    # Litestar's own middleware runs only once a route was found: unknown paths must pass the gate too.
    litestar.asgi_handler = Gate(
        ShortWay(
            litestar.asgi_handler,
            {(each.method, each.path): answer for each, answer in answering if "{" not in each.path},
        ),
        identity=identity,
        metrics=services.metrics,
        open_paths=open_paths,
        names=frozenset(name.lower() for name in services.names),
        terminals=TerminalDoor(services, identity),
    )
    return litestar


def _answering(endpoint: Endpoint, services: Services, identity: Identity) -> Answering:
    names, needs = endpoint.query_names, endpoint.needs

    async def answer(request: Request[Any, Any, Any]) -> Response[Any]:
        request.scope["path_template"] = endpoint.path
        call = Call(services, request, Query.parse(request.scope["query_string"], names), identity)
        if needs is not None:
            job = await admit(call, needs)
            call = call if job is None else replace(call, found=job)
        if endpoint.adds_data and (shortage := services.disk_shortage()) is not None:
            raise disk_full(shortage)
        return await endpoint.handler(call)

    return answer


def _route(endpoint: Endpoint, answering: Answering) -> HTTPRouteHandler:
    async def handle(request: Request[Any, Any, Any]) -> Response[Any]:
        return await answering(request)

    route = HTTPRouteHandler(
        endpoint.routes,
        http_method=endpoint.method,  # type: ignore[arg-type]  # the table holds nothing but methods
        status_code=200,  # unless the answer says otherwise
        name=f"{endpoint.method} {endpoint.path}",
    )
    return route(handle)
