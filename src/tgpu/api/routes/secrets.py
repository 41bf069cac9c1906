"""Users' secrets, which jobs name and nobody is shown: set, listed by name, removed."""

import re

import msgspec
from starlette.responses import Response

from tgpu.api.decode import read_body
from tgpu.api.edge import rfc3339
from tgpu.api.endpoint import Answer, Body, Call, Endpoint, Param
from tgpu.api.needs import LOOK, MANAGE_OWN
from tgpu.api.problems import not_found, unprocessable
from tgpu.api.reply import json_reply, no_content
from tgpu.api.secret_rules import MAX_SECRET, SECRET_NAME

_MOST = 200


class SecretOut(msgspec.Struct, kw_only=True):
    """A secret, without the secret."""

    name: str
    set_at: str


class SecretList(msgspec.Struct, kw_only=True):
    """The caller's secrets."""

    secrets: list[SecretOut]


async def list_secrets(call: Call) -> Response:
    names = await call.services.store.secret_names(call.caller.user)
    return json_reply(SecretList(secrets=[SecretOut(name=name, set_at=rfc3339(ms)) for name, ms in names]))


async def set_secret(call: Call) -> Response:
    name, services, user = call.path("name"), call.services, call.caller.user
    if not re.fullmatch(SECRET_NAME, name):
        # What was written may be the secret itself: it is not repeated.
        raise unprocessable(
            "name", "name must be up to 100 letters, digits, dots, dashes and underscores, such as hf-token"
        )
    body = await read_body(call, MAX_SECRET)
    _check_body(body)
    names = {known for known, _ in await services.store.secret_names(user)}
    if name not in names and len(names) >= _MOST:
        raise unprocessable("name", f"you have {_MOST} secrets already; remove one: tgpu secret remove NAME")
    await services.store.set_secret(user, name, body, call.actor, services.now_ms())
    return no_content()


def _check_body(body: bytes) -> None:
    """It will be the value of an environment variable."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\0"
    if not text or "\0" in text:
        raise unprocessable(
            "body", "the body is the secret itself: UTF-8 text without NUL, at least one character"
        )


async def remove_secret(call: Call) -> Response:
    services = call.services
    removed = await services.store.remove_secret(
        call.caller.user, call.path("name"), call.actor, services.now_ms()
    )
    if not removed:
        raise not_found("you have no secret of that name; `tgpu secret list` shows yours")
    return no_content()


_NAME = Param(
    "name",
    "What jobs call it.",
    {"type": "string", "pattern": f"^{SECRET_NAME}$"},
    "hf-token",
    where="path",
    required=True,
)
_EXAMPLE = {"secrets": [{"name": "hf-token", "set_at": "2030-01-31T12:00:00.000Z"}]}
ENDPOINTS = (
    Endpoint(
        "GET", "/secrets", list_secrets, LOOK, "tokens",
        "List secrets", "The names of the caller's secrets; nobody is ever shown what is in them.",
        {200: Answer("The secrets.", SecretList, _EXAMPLE)},
    ),
    Endpoint(
        "PUT", "/secrets/{name}", set_secret, MANAGE_OWN, "tokens",
        "Set a secret",
        "The body is the secret itself, up to 64 KiB. A job that names it in `secret_env` finds it in its "
        "environment when it starts, without a line end at its end.",
        {204: Answer("Set.")},
        errors=(404, 413, 422),
        params=(_NAME,),
        body=Body((), {"a token": "hf_…"}, media_type="application/octet-stream"),
        adds_data=True,
    ),
    Endpoint(
        "DELETE", "/secrets/{name}", remove_secret, MANAGE_OWN, "tokens",
        "Remove a secret", "Jobs that name it can no longer start.",
        {204: Answer("Removed.")},
        errors=(404,),
        params=(_NAME,),
    ),
)  # fmt: skip
