"""Answers, encoded once."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

JSON_TYPE = "application/json"
EXPOSITION_TYPE = "text/plain; version=0.0.4"  # the framework adds the charset of a text
_encoder = msgspec.json.Encoder()


def json_reply(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_encoder.encode(content), status_code=status, media_type=JSON_TYPE, headers=headers)


def no_content(headers: Mapping[str, str] | None = None) -> Response:
    return Response(b"", status_code=204, media_type=JSON_TYPE, headers=headers)
