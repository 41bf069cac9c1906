"""A job number for each index of an array, for in Slurm each has one: 42_7 is 1000042007 as well."""

from __future__ import annotations

_FIRST = 1_000_000_000
"""Jobs are not numbered so high."""
_EACH = 1000
_BITS = 31
_LARGEST = (1 << _BITS) - 1


def own_id(job_id: int, index: int) -> int:
    """Within 31 bits where that can be, for programs take it for a seed or a port."""
    number = _FIRST + job_id * _EACH + index
    return number if index < _EACH and number <= _LARGEST else job_id << _BITS | index


def parted(number: int) -> tuple[int, int | None]:
    """The job, and which index of it is meant; None: all of it."""
    if number < _FIRST:
        return number, None
    return divmod(number - _FIRST, _EACH) if number <= _LARGEST else (number >> _BITS, number & _LARGEST)
