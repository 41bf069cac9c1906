"""A document of a file to a manifest's shape: what cannot be honoured is refused by its path, all at once."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from tgpu.dialects.kubernetes.field import Field, Table, Verdict
from tgpu.dialects.kubernetes.problems import ManifestError, Refusal, refused
from tgpu.dialects.kubernetes.shape import Job
from tgpu.dialects.kubernetes.tables import TABLES

API_VERSION, KIND = "batch/v1", "Job"
_EMPTY: tuple[object, ...] = ({}, [], "")
_LONGEST_SHOWN = 80
_WRONG = re.compile(r"(?P<what>.*?)(?: - at `(?P<key>key` in `)?\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_TYPES = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<got>[^`]+)`")
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]+)`")
_VALUE = re.compile(r"Invalid enum value (?P<value>.*)", re.DOTALL)
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
}
_TYPE_NAMES: dict[type, str] = {
    str: "str", int: "int", float: "float", bool: "bool", dict: "object", list: "array"
}  # fmt: skip
_SCALARS = ("int", "float", "bool")
_STEP = re.compile(r"(\w+)|\[(\d+)\]")
_NO_JOBS = {
    "CronJob": "submit its jobTemplate as a Job, and let cron do that",
    "Pod": "write it as the template of a Job",
    "JobList": "write its items as documents of their own, with `---` between them",
    "List": "write its items as documents of their own, with `---` between them",
}


def manifest(document: Mapping[str, Any]) -> Job:
    """Raises ManifestError."""
    _check_kind(document)
    refusals: list[Refusal] = []
    said = _said(document, TABLES["Job"], "", refusals)
    if refusals:
        raise ManifestError(refusals)
    try:
        return msgspec.convert(said, Job)
    except msgspec.ValidationError as error:
        raise ManifestError([_in_words(str(error), said)]) from None


def _check_kind(document: Mapping[str, Any]) -> None:
    kind, version = document.get("kind"), document.get("apiVersion")
    if kind != KIND:
        hint = _NO_JOBS.get(str(kind), "leave it out")
        raise refused("kind", f"must be {KIND}; got {str(kind)[:_LONGEST_SHOWN]!r}: {hint}")
    if version != API_VERSION:
        raise refused("apiVersion", f"must be {API_VERSION}; got {str(version)[:_LONGEST_SHOWN]!r}")


def _said(given: Mapping[Any, Any], table: Table, path: str, refusals: list[Refusal]) -> dict[str, Any]:
    """What it says that means something here: neither what is null nor what asks for nothing."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        at = f"{path}.{name}" if path else str(name)
        field = table.get(name) if isinstance(name, str) else None
        if field is None:
            refusals.append(Refusal(at[:200], _unknown(name, table)))
        elif value is None:
            continue
        elif field.verdict is not Verdict.REFUSED:
            found[str(name)] = _inside(value, field, at, refusals)
        elif not _asks_for_nothing(value, field):
            refusals.append(Refusal(at, field.words))
    return found


def _inside(value: object, field: Field, path: str, refusals: list[Refusal]) -> object:
    """The same of what stands in it; what has another shape than it must have is told by its type later."""
    if field.of is None:
        return _without_nulls(value)
    table = TABLES[field.of]
    if isinstance(value, dict):
        return _said(value, table, path, refusals)
    if isinstance(value, list):
        return [
            _said(one, table, f"{path}[{at}]", refusals) if isinstance(one, dict) else one
            for at, one in enumerate(value)
        ]
    return value


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: one for key, one in value.items() if one is not None}
    return value


def _asks_for_nothing(value: object, field: Field) -> bool:
    return any(type(value) is type(one) and value == one for one in (*_EMPTY, *field.unless))


def _unknown(name: object, table: Table) -> str:
    near = get_close_matches(str(name), table, n=1)
    return (
        f"is no field of a Job manifest; did you mean {near[0]}?" if near else "is no field of a Job manifest"
    )


def _in_words(message: str, said: Mapping[str, Any]) -> Refusal:
    match = _WRONG.fullmatch(message)
    assert match is not None  # the pattern matches any text
    what, path = match["what"], match["path"] or ""
    if missing := _MISSING.search(what):
        return Refusal(f"{path}.{missing['name']}" if path else missing["name"], "is missing")
    if match["key"]:
        return Refusal(path, "must have text for its keys: put quotes around them")
    if types := _TYPES.search(what):
        expected, got = _types(types["expected"]), _types(types["got"])
        hint = ": put quotes around it" if expected == "text" and types["got"] in _SCALARS else ""
        return Refusal(_with_key(path, said, types["got"]), f"must be {expected}; got {got}{hint}")
    if value := _VALUE.search(what):
        return Refusal(path, f"cannot be {value['value'][:_LONGEST_SHOWN]} here: {_field_at(path).words}")
    return Refusal(path, f"is wrong: {what}")


def _types(names: str) -> str:
    words = [_WORDS.get(name.strip(), name.strip()) for name in names.split("|")]
    return " or ".join(word for word in words if word != "null")


def _with_key(path: str, said: Mapping[str, Any], got: str) -> str:
    """`nodeSelector[...]` says not which one: the first of such a type is it."""
    if not path.endswith("[...]"):
        return path
    path = path.removesuffix("[...]")
    found: Any = said
    for name, index in _STEP.findall(path):
        found = found[int(index)] if index else found[name]
    key = next((key for key, value in found.items() if _TYPE_NAMES.get(type(value)) == got), "")
    return f"{path}[{str(key)[:_LONGEST_SHOWN]}]"


def _field_at(path: str) -> Field:
    table = TABLES["Job"]
    *before, last = [name for name, _ in _STEP.findall(path) if name]
    for name in before:
        table = TABLES[table[name].of or ""]
    return table[last]
