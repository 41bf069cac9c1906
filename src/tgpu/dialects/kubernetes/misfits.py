"""Whether what a manifest says has the types of its shape: all that has not, by its path."""

import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from tgpu.dialects.kubernetes.problems import Refusal
from tgpu.dialects.kubernetes.tables import TABLES

_LONGEST_SHOWN = 80
_TYPES = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<got>[^`]+)`")
_VALUE = re.compile(r"Invalid enum value (?P<value>.*)", re.DOTALL)
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
}
_SCALARS = ("int", "float", "bool")


def misfits(value: object, wanted: Any, path: str = "", words: str = "") -> Iterator[Refusal]:  # noqa: ANN401  a type as it is written
    """`words`: what the table says of a field in which only some words may stand."""
    kind = _said_kind(wanted)
    of = get_args(kind)
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from _of_object(value, kind, path)
    elif isinstance(value, dict) and get_origin(kind) is dict:
        if not all(isinstance(key, str) for key in value):
            yield Refusal(path, "must have text for its keys: put quotes around them")
        for key, one in value.items():
            yield from misfits(one, of[1], f"{path}[{str(key)[:_LONGEST_SHOWN]}]")
    elif isinstance(value, list) and get_origin(kind) is list:
        for at, one in enumerate(value):
            yield from misfits(one, of[0], f"{path}[{at}]")
    else:
        try:
            msgspec.convert(value, wanted)
        except msgspec.ValidationError as error:
            yield Refusal(path, _in_words(str(error), words))


def _of_object(value: dict[str, Any], shape: type[msgspec.Struct], path: str) -> Iterator[Refusal]:
    table = TABLES[shape.__name__]
    for field in msgspec.structs.fields(shape):
        name = field.encode_name
        at = f"{path}.{name}" if path else name
        if name in value:
            yield from misfits(value[name], field.type, at, table[name].words)
        elif field.required:
            yield Refusal(at, f"is missing{_choice(field.type)}")


def _said_kind(wanted: Any) -> Any:  # noqa: ANN401  a type as it is written
    """Of what may be left out: what it is if it is said."""
    if get_origin(wanted) in (Union, UnionType):
        said = [one for one in get_args(wanted) if one is not NoneType]
        return said[0] if len(said) == 1 else wanted
    return wanted


def _choice(wanted: Any) -> str:  # noqa: ANN401  a type as it is written
    kind = _said_kind(wanted)
    return f": say {' or '.join(get_args(kind))}" if get_origin(kind) is Literal else ""


def _in_words(message: str, words: str) -> str:
    if types := _TYPES.search(message):
        expected, got = _types(types["expected"]), _types(types["got"]) or "null"
        hint = ": put quotes around it" if expected == "text" and types["got"] in _SCALARS else ""
        return f"must be {expected}; got {got}{hint}"
    if value := _VALUE.search(message):
        return f"cannot be {value['value'][:_LONGEST_SHOWN]} here: {words}"
    return f"is wrong: {message}"


def _types(names: str) -> str:
    words = [_WORDS.get(name.strip(), name.strip()) for name in names.split("|")]
    return " or ".join(word for word in words if word != "null")
