"""One setting: a field with a default and a sentence that says what it means."""

from dataclasses import field
from typing import Any


def setting(default: Any, doc: str) -> Any:  # noqa: ANN401  dataclass.field is typed this way
    if isinstance(default, tuple | str | int | float | bool) or default is None:
        return field(default=default, metadata={"doc": doc})
    return field(default_factory=default, metadata={"doc": doc})
