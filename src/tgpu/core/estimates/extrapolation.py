"""Extrapolation of starts: units that a scenario did not come to, by the work that is ahead of them."""

import numpy as np

from tgpu.core.estimates.model import Model
from tgpu.core.kernel.shapes import Floats, Ints


def extrapolate(
    starts: Floats,
    lane: Ints,
    *,
    runs_ms: Floats,
    model: Model,
    now: float,
    to_come: tuple[Floats, Floats],
) -> None:
    """The units of a lane, in order, start once enough has ended, and not before the cluster has done the
    work ahead of them. `to_come`: when what runs now ends, and which part of the cluster each end frees."""
    if not len(lane):
        return
    ends, freed = to_come
    sizes = model.sizes[lane]
    first = np.full(len(lane), now)
    if len(ends):
        at = np.searchsorted(np.cumsum(freed), np.cumsum(sizes) - 1e-9)
        first = ends[np.minimum(at, len(ends) - 1)]
    work = sizes * runs_ms[lane]
    busy = min(1.0, max(float(freed.sum()) if len(ends) else 1.0, float(sizes.max()), 1e-9))
    by_work = now + (np.cumsum(work) - work) / busy
    starts[lane] = np.maximum(np.maximum(first, by_work), model.eligible[lane])


def keep_order(starts: Floats, group: Floats, in_line: Ints, now: float) -> None:
    """Of units alike in one queue, none starts before those ahead of it."""
    width = max(1.0, float(starts.max()) - now) + 1.0
    raised = np.maximum.accumulate(starts[in_line] - now + width * group[in_line])
    starts[in_line] = raised - width * group[in_line] + now
