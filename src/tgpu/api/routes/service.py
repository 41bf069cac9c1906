"""About the server itself: whether it lives, and what else it answers to."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
from starlette.responses import Response

from tgpu.api.edge import rfc3339
from tgpu.api.endpoint import Answer, Call, Endpoint
from tgpu.api.needs import WHOEVER
from tgpu.api.openapi import document
from tgpu.api.reply import json_reply
from tgpu.api.services import Services


class Health(msgspec.Struct, kw_only=True):
    status: str
    version: str
    cluster_id: str
    time: str
    store: str
    """`ok`, or `away` while this server waits for the database that it shares with others."""


class Index(msgspec.Struct, kw_only=True):
    name: str
    version: str
    links: dict[str, str]


async def healthz(call: Call) -> Response:
    services = call.services
    return json_reply(
        Health(
            status="ok",
            version=services.version,
            cluster_id=services.store.cluster_id,
            time=rfc3339(services.now_ms()),
            store="away" if services.is_cut_off() else "ok",
        )
    )


class Told:
    """What does not change while the server runs, made once: the description when it is first asked for."""

    def __init__(self, services: Services, table: Sequence[Endpoint]) -> None:
        paths = sorted(
            {endpoint.path for endpoint in table if endpoint.method == "GET" and "{" not in endpoint.path}
        )
        links = {path.strip("/"): path for path in paths if path != "/"}
        self._index = Index(name="tgpu", version=services.version, links=links)
        self._table, self._version = table, services.version

    @cached_property
    def _document(self) -> bytes:
        return msgspec.json.encode(document(self._table, self._version))

    async def index(self, _call: Call) -> Response:
        return json_reply(self._index)

    async def openapi(self, _call: Call) -> Response:
        return Response(self._document, media_type="application/json")


def endpoints(services: Services, others: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    async def index(call: Call) -> Response:
        return await told.index(call)

    async def openapi(call: Call) -> Response:
        return await told.openapi(call)

    own = (
        Endpoint(
            "GET", "/", index, WHOEVER, "service",
            "List what there is", "The paths to begin with.",
            {200: Answer("Links.", Index, {"name": "tgpu", "version": "0.1.0", "links": {"jobs": "/jobs"}})},
        ),
        Endpoint(
            "GET", "/healthz", healthz, None, "service",
            "Say whether the server lives", "Answers without asking who calls.",
            {
                200: Answer(
                    "It lives.",
                    Health,
                    {
                        "status": "ok",
                        "version": "0.1.0",
                        "cluster_id": "c0ffee",
                        "time": "2030-01-31T12:00:00.000Z",
                        "store": "ok",
                    },
                )
            },
        ),
        Endpoint(
            "GET", "/openapi.json", openapi, WHOEVER, "service",
            "Describe this API", "This document, in OpenAPI 3.1.",
            {200: Answer("The document.", dict[str, Any], {"openapi": "3.1.0"})},
        ),
    )  # fmt: skip
    told = Told(services, (*others, *own))
    return own
