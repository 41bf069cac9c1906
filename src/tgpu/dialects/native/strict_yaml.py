"""YAML from anywhere, as plain data: it can neither run code, nor fill the memory, nor mean two things."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_MOST_DEPTH = 64
_TAG = "tag:yaml.org,2002:"
_TEXT = f"{_TAG}str"
_NUMBERS = frozenset({f"{_TAG}int", f"{_TAG}float"})
_BOOL = f"{_TAG}bool"
_PLAIN_NUMBER = re.compile(r"(0|-?[1-9][0-9]*)|-?(0|[1-9][0-9]*)\.(0|[0-9]{0,12}[1-9])")
_PLAIN_BOOLS = frozenset({"true", "false"})
_TEXT_HERE = frozenset({f"{_TAG}timestamp", f"{_TAG}value", f"{_TAG}yaml"})
_PLAIN = frozenset({_TEXT, *_NUMBERS, _BOOL, f"{_TAG}null", f"{_TAG}map", f"{_TAG}seq"})
_HALF = re.compile("[\ud800-\udfff]")
_MERGE = f"{_TAG}merge"
_LONGEST_SHOWN = 80
_INDENTED = re.compile(r"^[ \t]+", re.MULTILINE)
_WHICH_TEXT = re.compile(r'\s+in "<[^>]*>", position \d+$')


class BadYamlError(ValueError):
    """What is wrong with the text, in one line; and in which line of the text, if that is known."""

    def __init__(self, words: str, line: int | None = None) -> None:
        super().__init__(words)
        self.line = line


def documents(text: str) -> list[Any]:
    """Every document of the text; an empty one is None. Raises BadYamlError."""
    text = _indented_with_spaces(text)
    try:
        # _StrictLoader is a SafeLoader: it builds nothing but plain data.
        return list(yaml.load_all(text, Loader=_StrictLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise BadYamlError(_one_line(error, text), None if mark is None else mark.line + 1) from None
    except RecursionError:
        raise BadYamlError("it is nested too deeply") from None
    except ValueError:  # such as a number of thousands of digits
        raise BadYamlError("a value looks like a number and is none: put quotes around it") from None


def _indented_with_spaces(text: str) -> str:
    """JSON may be indented with tabs, which mean nothing there."""
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return text
    return _INDENTED.sub(lambda tabs: " " * len(tabs[0]), text)


class Lines:
    """Line numbers of the values of a text that `documents` can read. The text is parsed at most once."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _nodes(self) -> list[yaml.Node]:
        return list(yaml.compose_all(_indented_with_spaces(self._text), Loader=_StrictLoader))

    def of(self, document: int, path: Iterable[str | int]) -> int | None:
        """Of the value, or of the nearest one above it."""
        node: yaml.Node | None = self._nodes[document] if document < len(self._nodes) else None
        line = None if node is None else node.start_mark.line + 1
        for step in path:
            key, node = _child(node, step)
            if key is None:
                break
            line = key.start_mark.line + 1
        return line


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    """Where a value is named, and the value."""
    if isinstance(node, yaml.MappingNode):
        found = next((pair for pair in node.value if pair[0].value == str(step)), None)
        return (None, None) if found is None else found
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None, None


class _StrictLoader(yaml.SafeLoader):
    """Plain data only, no aliases (a few lines of them can unfold to gigabytes), no key twice.

    What YAML would read as something else than was written stays text: dates, times of day (`16:00` is not
    the number 960), `010` (not 8), `3.10` (not 3.1), `0.00001` (not 1e-05) and `no` (not false).
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> Any:  # noqa: ANN401  as PyYAML has it
        tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        reads_otherwise = (tag in _NUMBERS and not _is_plain_number(value)) or (
            tag == _BOOL and value.lower() not in _PLAIN_BOOLS
        )
        return _TEXT if reads_otherwise or tag in _TEXT_HERE else tag

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _wrong("aliases (*name) are not allowed here", event)
        if self._depth == _MOST_DEPTH:
            raise _wrong(f"it is nested too deeply: {_MOST_DEPTH} levels are possible", event)
        self._depth += 1
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode) and _HALF.search(node.value):
            raise _wrong("half of a character (\\ud800 to \\udfff) is no text", node)
        self._depth -= 1
        if node is not None and node.tag == _MERGE:
            raise _wrong("merging (<<) is not allowed here: write it out", node)
        if node is not None and node.tag not in _PLAIN:
            raise _wrong(f"the tag {node.tag[:_LONGEST_SHOWN]!r} is not allowed here: leave it out", node)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _wrong("a key must be a word, not a list or a mapping", key)
            if key.value in seen:
                raise _wrong(f"key {key.value[:_LONGEST_SHOWN]!r} is given twice", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _is_plain_number(text: str) -> bool:
    """Written as it would be printed: `0.00001` would be printed as `1e-05`, a long fraction shortened."""
    return _PLAIN_NUMBER.fullmatch(text) is not None and ("." not in text or repr(float(text)) == text)


def _wrong(problem: str, at: yaml.Node | yaml.Event) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(None, None, problem, at.start_mark)  # type: ignore[arg-type]  # a mark, of Python's loader


def _one_line(error: yaml.YAMLError, text: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or _WHICH_TEXT.sub("", str(error))
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        problem = "a tab cannot stand here: indent with spaces"
    line = f" (line {mark.line + 1})" if mark is not None else ""
    return f"{' '.join(problem.split())}{line}"
