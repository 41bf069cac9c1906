"""Indices of an array as Slurm lets people write them: some of them perhaps twice."""

from __future__ import annotations


def once_each(text: str) -> str:
    """`1-3,2%4` is `1-3%4`. What is wrong in another way is left to whoever reads it."""
    from tgpu.dialects.slurm.hosts import ranges  # noqa: PLC0415  only of arrays
    from tgpu.domain.index_set import parse_indices  # noqa: PLC0415
    from tgpu.domain.quantities import BadQuantityError  # noqa: PLC0415

    body, percent, at_once = text.partition("%")
    try:
        parts = [parse_indices("array", part) for part in body.split(",")]
    except BadQuantityError:
        return text
    total = {index for part in parts for index in part} if len(parts) > 1 else set()
    if len(total) == sum(part.count for part in parts if total):
        return text
    return ranges(total) + percent + at_once
