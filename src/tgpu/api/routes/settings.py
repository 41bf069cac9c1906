"""The settings that this server runs with; for administrators, without secrets."""

import os
from typing import Any

import msgspec
from starlette.responses import Response

from tgpu.api.endpoint import Answer, Call, Endpoint
from tgpu.api.needs import SEE_ALL
from tgpu.api.reply import json_reply
from tgpu.config.described import described


class SettingOut(msgspec.Struct, kw_only=True):
    """One setting: its value, where that comes from, and what it means."""

    name: str
    value: Any
    source: str
    doc: str


class SettingList(msgspec.Struct, kw_only=True):
    """Every setting, then every pool that has settings of its own."""

    settings: list[SettingOut]


async def list_settings(call: Call) -> Response:
    rows = described(call.services.settings, os.environ)
    return json_reply(
        SettingList(
            settings=[
                SettingOut(name=row.name, value=row.value, source=row.source, doc=row.doc) for row in rows
            ]
        )
    )


ENDPOINTS = (
    Endpoint(
        "GET",
        "/settings",
        list_settings,
        SEE_ALL,
        "service",
        "List the server's settings",
        "What this server was started with. Secrets, and passwords in addresses, are masked.",
        {
            200: Answer(
                "The settings.",
                SettingList,
                {
                    "settings": [
                        {
                            "name": "min_run",
                            "value": "5m",
                            "source": "the TOML file",
                            "doc": "How long a job runs before it may be stopped for a more urgent one.",
                        }
                    ]
                },
            )
        },
    ),
)
