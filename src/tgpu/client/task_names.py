"""What a caller names: a job by its number, or one task of it as `"42.7"`."""

from __future__ import annotations


def parted(name: int | str) -> tuple[int | str, int | None]:
    """Job and index; None: the job itself. Raises ValueError for what looks like a task, and is none."""
    if isinstance(name, str) and "." in name:
        number, _, index = name.partition(".")
        if not (_is_number(number) and _is_number(index)):
            raise ValueError(f"{name!r} names no task: a job is 42, and one of its tasks '42.7'")
        return int(number), int(index)
    return int(name) if _is_number(str(name)) else name, None  # of what is none, the server tells


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
