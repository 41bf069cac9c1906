"""Puts the API together: routes from the table of endpoints, behind the gate."""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from tgpu.api.access_book import Book
from tgpu.api.endpoint import Call, Endpoint
from tgpu.api.gate import Gate
from tgpu.api.http.dashboard_files import DashboardFiles
from tgpu.api.http.router import Answering, Router
from tgpu.api.identity import Identity
from tgpu.api.permission import admit
from tgpu.api.problems import disk_full
from tgpu.api.query import Query
from tgpu.api.services import Services
from tgpu.api.table import endpoints
from tgpu.api.terminal_door import TerminalDoor


def create_app(services: Services) -> ASGIApp:
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
    open_paths = frozenset(endpoint.path for endpoint in table if endpoint.needs is None)
    guarded = frozenset((each.method, each.path) for each in table if each.needs and each.path in open_paths)
    return Gate(
        Router([(endpoint, _answering(endpoint, services, identity)) for endpoint in table]),
        identity=identity,
        metrics=services.metrics,
        open_paths=open_paths,
        guarded=guarded,
        names=frozenset(name.lower() for name in (*services.names, services.browser.own_name) if name),
        terminals=TerminalDoor(services, identity),
        bodies=services.bodies,
        dashboard=DashboardFiles(services.browser, services.dashboard),
    )


def _answering(endpoint: Endpoint, services: Services, identity: Identity) -> Answering:
    names, needs = endpoint.query_names, endpoint.needs

    async def answer(request: Request) -> Response:
        call = Call(services, request, Query.parse(request.scope["query_string"], names), identity)
        if needs is not None:
            job = await admit(call, needs)
            call = call if job is None else replace(call, found=job)
        if endpoint.adds_data and (shortage := services.disk_shortage()) is not None:
            raise disk_full(shortage)
        return await endpoint.handler(call)

    return answer
