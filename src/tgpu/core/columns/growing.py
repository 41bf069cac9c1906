"""Arrays with room at their end."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=np.generic)


def with_room(array: npt.NDArray[T], rows: int) -> npt.NDArray[T]:
    """The same array if it has so many rows, else a larger copy; new rows are zero."""
    if len(array) >= rows:
        return array
    grown = np.zeros((max(rows, 2 * len(array), 8), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
