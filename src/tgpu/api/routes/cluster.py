"""The cluster itself: its store, its servers, and who leads."""

import hashlib
from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from tgpu.api.edge import rfc3339
from tgpu.api.endpoint import Answer, Call, Endpoint
from tgpu.api.needs import LOOK
from tgpu.api.reply import json_reply
from tgpu.store.cluster_port import ServerRow

_SEEN_WITHIN_MS = 15_000


class StoreOut(msgspec.Struct, kw_only=True):
    """Where facts are kept."""

    program: str
    revision: str
    """Of its tables."""
    known_revision: str
    """The newest that this server knows."""
    clock_ahead_s: float
    """By how much the database's clock is ahead of this server's."""


class ServerOut(msgspec.Struct, kw_only=True):
    """A server that was seen within the last seconds."""

    server_id: str
    url: str
    version: str
    settings: str
    """A digest of the settings on which all servers must agree."""
    started_at: str
    leads: bool
    heard_s: float
    """Seconds since it last said that it is there; each does every few seconds."""


class ClusterOut(msgspec.Struct, kw_only=True):
    """The cluster, as this server sees it."""

    cluster_id: str
    store: StoreOut
    servers: list[ServerOut]


async def show(call: Call) -> Response:
    store = call.services.store
    begun_ms = call.services.now_ms()
    facts = await store.facts()
    ended_ms = call.services.now_ms()
    servers, leads = await _servers(call)
    return json_reply(
        ClusterOut(
            cluster_id=store.cluster_id,
            store=StoreOut(
                program=facts.program,
                revision=facts.revision,
                known_revision=facts.known_revision,
                clock_ahead_s=round((facts.clock_ms - (begun_ms + ended_ms) / 2) / 1000, 3),
            ),
            servers=[
                ServerOut(
                    server_id=server.server_id,
                    url=server.url,
                    version=server.version,
                    settings=_digest(server.config_digest),
                    started_at=rfc3339(server.started_ms),
                    leads=server.server_id == leads,
                    heard_s=round(max(0, server.silent_ms) / 1000, 1),
                )
                for server in servers
            ],
        )
    )


async def _servers(call: Call) -> tuple[Sequence[ServerRow], str | None]:
    """Those that there are, and the id of the one that leads."""
    alone, store = call.services.alone, call.services.store
    if alone is not None:
        return [alone], alone.server_id if call.services.live.leads else None
    leader = await store.leader()
    leads = leader.server_id if leader is not None and leader.alive else None
    return await store.servers(_SEEN_WITHIN_MS), leads


def _digest(of_each: str) -> str:
    return hashlib.sha256(of_each.encode()).hexdigest()[:16]


ENDPOINTS = (
    Endpoint(
        "GET", "/cluster", show, LOOK, "service",
        "Show the cluster", "Its store, its servers and who leads: what `tgpu doctor` looks at.",
        {
            200: Answer(
                "The cluster.",
                ClusterOut,
                {
                    "cluster_id": "c0ffee",
                    "store": {
                        "program": "PostgreSQL 17.2",
                        "revision": "0005",
                        "known_revision": "0005",
                        "clock_ahead_s": 0.002,
                    },
                    "servers": [
                        {
                            "server_id": "5e4f",
                            "url": "https://gpu1:7480",
                            "version": "0.1.0",
                            "settings": "9a1b",
                            "started_at": "2030-01-31T12:00:00.000Z",
                            "leads": True,
                            "heard_s": 1.2,
                        }
                    ],
                },
            )
        },
    ),
)  # fmt: skip
