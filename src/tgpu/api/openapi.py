"""The API's own description, drawn from the table of endpoints."""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from tgpu.api.endpoint import Answer, Body, Endpoint, Param
from tgpu.api.problems import PROBLEM_TYPE

_EVERYWHERE = (400, 401, 403, 405, 408, 421, 429, 431, 500, 503, 507)
_EXAMPLES = {
    400: ("bad-request", "limit must be a whole number from 1 to 1000; got 'many'"),
    401: ("unauthorized", "send a token: `Authorization: Bearer tgpu_…` (POST /tokens makes one)"),
    403: ("forbidden", "job 42 belongs to alice: only alice and administrators may cancel it"),
    404: ("not-found", "there is no job 42; `tgpu list --all` shows those there are"),
    405: ("method-not-allowed", "this path answers only to GET, OPTIONS"),
    408: ("too-slow", "the body of the request did not arrive in time; try again"),
    409: ("already-ended", "job 42 cannot be cancelled: it has completed"),
    412: ("stale-version", "somebody changed it first: the version is 4 by now; read it again, then decide"),
    413: ("too-large", "the request may have at most 1 MiB; send less at once"),
    421: (
        "wrong-host",
        "this server answers only to 127.0.0.1, localhost and [::1]: check the Host header",
    ),
    422: (
        "invalid-field",
        "gpu_request must be a fraction below 1 or a whole number: ask for 0.5 or 2; got 1.5",
    ),
    426: ("upgrade-required", "this is a WebSocket: ask for the upgrade, or use `tgpu exec`"),
    429: ("too-many-streams", "too many streams are open; close some of them first"),
    431: ("too-large", "the head of a request may have at most 64 KiB; send shorter headers"),
    500: ("internal", "the server made a mistake; its log says which"),
    507: (
        "disk-full",
        "the disk that holds /var/lib/tgpu/tgpu.db is full: free some room there and try again",
    ),
    503: ("no-leader", "no server leads yet, and a new one is being chosen: try again in some seconds"),
}
_TAGS = {
    "jobs": "Submit, look at and cancel jobs.",
    "nodes": "What there is to run on, and what waits for it.",
    "tenants": "Who shares the machines, and how much each may have.",
    "tokens": "Keys for callers over TCP, and secrets for jobs.",
    "service": "The server itself.",
}


class Problem(msgspec.Struct, kw_only=True):
    """What went wrong, as RFC 9457 has it; `detail` says what to do. Some kinds have further fields."""

    type: str
    title: str
    status: int
    detail: str


def document(table: Sequence[Endpoint], version: str) -> dict[str, Any]:
    schema_of, components = _schemas(table)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in table:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tgpu",
            "version": version,
            "description": "A multi-user job scheduler for GPUs. Over the unix socket the caller is known "
            "by the kernel's word; over TCP by a token. Every path answers under /v1 too.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}, {"url": "/v1"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {str(status): _error(status, schema_of) for status in _EXAMPLES},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token from POST /tokens, or the key that a job finds in TGPU_TOKEN; "
                    "not needed on the unix socket.",
                }
            },
        },
    }


Schemas = Mapping[Any, dict[str, Any]]


def _schemas(table: Iterable[Endpoint]) -> tuple[Schemas, dict[str, Any]]:
    kinds: list[Any] = [Problem]
    for endpoint in table:
        for answer in endpoint.answers.values():
            kinds += _each(answer.kind)
        kinds += _each(endpoint.body.kinds if endpoint.body else None)
    kinds = list(dict.fromkeys(kinds))
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    return dict(zip(kinds, schemas, strict=True)), dict(components)


def _each(kind: Any) -> tuple[Any, ...]:  # noqa: ANN401  any type that msgspec knows
    if kind is None:
        return ()
    return kind if isinstance(kind, tuple) else (kind,)


def _any_of(kind: Any, schema_of: Schemas) -> dict[str, Any]:  # noqa: ANN401  any type that msgspec knows
    schemas = [schema_of[each] for each in _each(kind)]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _operation(endpoint: Endpoint, schema_of: Schemas) -> dict[str, Any]:
    errors = dict.fromkeys((*_EVERYWHERE, *endpoint.errors))
    operation: dict[str, Any] = {
        "operationId": _operation_id(endpoint),
        "summary": endpoint.summary,
        "description": endpoint.text,
        "tags": [endpoint.tag],
        "parameters": [_parameter(param) for param in endpoint.params],
        "responses": {
            **{str(status): _answer(answer, schema_of) for status, answer in endpoint.answers.items()},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(errors)},
        },
    }
    if endpoint.needs is None:
        operation["security"] = []
    if endpoint.body is not None:
        operation["requestBody"] = _body(endpoint.body, schema_of)
    return operation


def _operation_id(endpoint: Endpoint) -> str:
    words = [word.strip("{}").replace(".", "_") for word in endpoint.path.split("/") if word]
    return "_".join([endpoint.method.lower(), *(words or ["index"])])


def _parameter(param: Param) -> dict[str, Any]:
    return {
        "name": param.name,
        "in": param.where,
        "description": param.text,
        "required": param.required,
        "schema": dict(param.schema),
        "example": param.example,
    }


def _answer(answer: Answer, schema_of: Schemas) -> dict[str, Any]:
    told: dict[str, Any] = {"description": answer.text}
    if answer.headers:
        told["headers"] = {
            name: {"schema": {"type": "string"}, "example": example}
            for name, example in answer.headers.items()
        }
    if answer.kind is not None or answer.example is not None:
        is_json = answer.media_type == "application/json"
        schema = _any_of(answer.kind, schema_of) if is_json else {"type": "string"}
        told["content"] = {answer.media_type: {"schema": schema, "example": answer.example}}
        for media_type, example in answer.as_text.items():
            told["content"][media_type] = {"schema": {"type": "string"}, "example": example}
    return told


def _body(body: Body, schema_of: Schemas) -> dict[str, Any]:
    return {
        "required": body.required,
        "content": {
            body.media_type: {
                "schema": _any_of(body.kinds, schema_of) if body.kinds else {"type": "string"},
                "examples": {name: {"value": value} for name, value in body.examples.items()},
            }
        },
    }


def _error(status: int, schema_of: Schemas) -> dict[str, Any]:
    kind, detail = _EXAMPLES[status]
    title = HTTPStatus(status).phrase
    example = {"type": f"urn:tgpu:problem:{kind}", "title": title, "status": status, "detail": detail}
    return {
        "description": title,
        "content": {PROBLEM_TYPE: {"schema": schema_of[Problem], "example": example}},
    }
