"""Which words a field of a body takes, so that whoever wrote another one is told."""

import re
from collections.abc import Iterator

from msgspec import inspect

_STEP = re.compile(r"\w+|\[[^]]*\]")
_LISTS = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType)


def choices(kind: object, path: str) -> list[str]:
    """`kind`: what the body is; `path`: where in it, such as `rules[0].action`. Empty: nobody knows."""
    found = [inspect.type_info(kind)]
    for step in _STEP.findall(path):
        found = [inner for each in found for inner in _inside(each, step)]
    return [str(word) for each in found for word in _words(each)]


def _inside(kind: inspect.Type, step: str) -> Iterator[inspect.Type]:
    for each in _bare(kind):
        if isinstance(each, inspect.StructType):
            yield from (field.type for field in each.fields if field.encode_name == step)
        elif isinstance(each, _LISTS):
            yield each.item_type
        elif isinstance(each, inspect.DictType):
            yield each.value_type


def _words(kind: inspect.Type) -> Iterator[object]:
    for each in _bare(kind):
        if isinstance(each, inspect.EnumType):
            yield from (member.value for member in each.cls)
        elif isinstance(each, inspect.LiteralType):
            yield from each.values


def _bare(kind: inspect.Type) -> Iterator[inspect.Type]:
    """Without what is said about it, each of several."""
    if isinstance(kind, inspect.Metadata):
        yield from _bare(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _bare(each)
    else:
        yield kind
