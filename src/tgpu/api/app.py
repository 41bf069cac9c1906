"""Puts the API together: routes from the table of endpoints, behind the gate."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from litestar import Litestar, Request, Response
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler

from tgpu.api.access_book import Book
from tgpu.api.endpoint import Call, Endpoint
from tgpu.api.gate import Gate
from tgpu.api.http.dashboard_files import DashboardFiles
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
        services.store,
        services.settings,
        services.accounts,
        services.now_ms,
        book,
        services.job_keys,
        services.browser,
    )
    services.store.subscribe_events(services.feed.wake)
    table = endpoints(services)
    answering = [(endpoint, _answering(endpoint, services, identity)) for endpoint in table]
    litestar = Litestar(
        # OPTIONS first: else the framework adds its own to each path.
        route_handlers=[*_options(table), *(_route(*each) for each in answering)],
        exception_handlers={Exception: answer_error},
        openapi_config=None,  # our own document says more than signatures could
        logging_config=None,
        request_max_body_size=None,  # bounded where it is read, by what it is
    )
    open_paths = frozenset(endpoint.path for endpoint in table if endpoint.needs is None)
    guarded = frozenset((each.method, each.path) for each in table if each.needs and each.path in open_paths)
    # Litestar's own middleware runs only once a route was found: unknown paths must pass the gate too.
    litestar.asgi_handler = Gate(
        ShortWay(
            litestar.asgi_handler,
            {(each.method, each.path): answer for each, answer in answering if "{" not in each.path},
        ),
        identity=identity,
        metrics=services.metrics,
        open_paths=open_paths,
        guarded=guarded,
        names=frozenset(name.lower() for name in (*services.names, services.browser.own_name) if name),
        terminals=TerminalDoor(services, identity),
        bodies=services.bodies,
        dashboard=DashboardFiles(services.browser, services.dashboard),
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


def _options(table: Sequence[Endpoint]) -> list[HTTPRouteHandler]:
    """One for each path: the framework's own would know the methods of one of its endpoints only."""
    methods: dict[str, set[str]] = {}
    routes: dict[str, list[str]] = {}
    for endpoint in table:
        methods.setdefault(endpoint.path, {"OPTIONS"}).add(endpoint.method)
        routes[endpoint.path] = endpoint.routes
    return [_options_route(path, routes[path], ", ".join(sorted(methods[path]))) for path in routes]


def _options_route(path: str, routes: list[str], allowed: str) -> HTTPRouteHandler:
    async def handle(request: Request[Any, Any, Any]) -> Response[Any]:
        request.scope["path_template"] = path
        return Response(b"", status_code=204, headers={"Allow": allowed}, media_type="application/json")

    route = HTTPRouteHandler(routes, http_method=HttpMethod.OPTIONS, status_code=200, name=f"OPTIONS {path}")
    return route(handle)
