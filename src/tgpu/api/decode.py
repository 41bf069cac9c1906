"""Reads a request's body, with a bound; what is wrong with it is told in a sentence that names the field."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TypeVar

import msgspec
from starlette.types import Scope

from tgpu.api.body_budget import share_of
from tgpu.api.choices import choices
from tgpu.api.endpoint import Call
from tgpu.api.problems import ProblemError, bad_request, unprocessable
from tgpu.api.strict_json import check_strict

KIB = 1024
MIB = 1024 * KIB
T = TypeVar("T")

_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_KEY_AT = re.compile(r"^(?P<what>.*?) - at `key` in `(?P<path>[^`]*)`$", re.DOTALL)
_MISMATCH = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<got>[^`]+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]+)`")
_NO_CHOICE = re.compile(r"Invalid enum value (?P<got>.*)", re.DOTALL)
_WORDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


def _too_large(cap: int) -> ProblemError:
    # The rest of the body is not wanted: closing the connection says so to a client that is still sending.
    most = f"{cap // MIB} MiB" if cap >= MIB else f"{cap // KIB} KiB"
    return ProblemError(
        413,
        "too-large",
        f"the request may have at most {most}; send less at once",
        headers={"Connection": "close"},
    )


async def read_body(call: Call, cap: int) -> bytes:
    """Bounded by `cap`, and by what the caller's requests and all others hold. Raises ProblemError."""
    _check_length(call.request.scope, cap)
    share = share_of(call.request.scope)
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await call.request.receive()
        if message["type"] != "http.request":
            raise bad_request("the caller went away before its request was whole")
        part, more = message["body"], message["more_body"]
        size += len(part)
        if size > cap:
            raise _too_large(cap)
        share.grow_to(size)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _check_length(scope: Scope, cap: int) -> None:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > cap:
            raise _too_large(cap)


def check_single(raw: bytes) -> None:
    if len(raw) > MIB:
        raise _too_large(MIB)


def decode(decoder: "msgspec.json.Decoder[T]", raw: bytes, at: str = "") -> T:
    """`at` is where the body stands in a larger one, such as `jobs[17]`. Raises ProblemError."""
    value = decode_shape(decoder, raw, at)
    check_strict(raw, at)
    return value


def decode_shape(decoder: "msgspec.json.Decoder[T]", raw: bytes, at: str = "") -> T:
    """Without the strict pass, which is left to the caller. Raises ProblemError."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _sentence(str(error), decoder.type, at) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the body must be JSON in UTF-8: {error}") from None
    except RecursionError:
        raise bad_request("the body is nested too deeply") from None


def _sentence(message: str, kind: object, at: str) -> ProblemError:
    match = _KEY_AT.match(message) or _AT.match(message)
    assert match is not None  # the second pattern matches any text
    what, path = match["what"], (match["path"] or "$").removeprefix("$").lstrip(".").replace("[...]", "")
    field = ".".join(part for part in (at, path) if part)
    if missing := _MISSING.search(what):
        name = f"{field}.{missing['name']}" if field else missing["name"]
        return unprocessable(name, f"{name} is missing")
    if unknown := _UNKNOWN.search(what):
        return _unknown_field(unknown["name"], kind, field)
    if mismatch := _MISMATCH.search(what):
        expected, got = _in_words(mismatch["expected"]), _in_words(mismatch["got"])
        if "int" in mismatch["expected"] and mismatch["got"] == "float":
            got = "one with a point or an exponent: write it in digits, such as 1000"
        if (match["path"] or "").endswith("[...]"):
            return unprocessable(field, f"{field}: each of its values must be {expected}; got {got}")
        return unprocessable(field, f"{field or 'the body'} must be {expected}; got {got}")
    if (wrong := _NO_CHOICE.search(what)) and (known := choices(kind, path)):
        return unprocessable(field, f"{field} must be one of {', '.join(known)}; got {wrong['got'][:80]}")
    return unprocessable(field, f"{field or 'the body'}: {what[:1].lower()}{what[1:]}")


def _in_words(types: str) -> str:
    words = [_WORDS.get(word.strip(), word.strip()) for word in types.split("|")]
    if len(words) > 1:
        needless = {"null", "a whole number"} if "a number" in words else {"null"}
        words = [word for word in words if word not in needless]
    return " or ".join(words)


def _unknown_field(name: str, kind: object, prefix: str) -> ProblemError:
    field = f"{prefix}.{name}" if prefix else name
    later: Iterable[str] = getattr(kind, "LATER", ())
    given: Iterable[str] = getattr(kind, "SET_BY_SERVER", ())
    if name in later:
        return ProblemError(
            422,
            "not-yet",
            f"{field} is not supported by this version yet; leave it out",
            extras={"field": field},
        )
    if name in given:
        return unprocessable(field, f"{field} is set by the server; leave it out")
    unspoken: Iterable[str] = getattr(kind, "UNSPOKEN", ())
    known = [known for known in getattr(kind, "__struct_fields__", ()) if known not in unspoken]
    other = getattr(kind, "OTHER_NAMES", {}).get(name)
    close = get_close_matches(name, known, n=1) if other not in known else [other]
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
    return unprocessable(field, f"unknown field {field[:200]!r}; {hint}")
