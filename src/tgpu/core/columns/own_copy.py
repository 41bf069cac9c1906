"""Copies for trials: containers and arrays of their own, on contents that are shared."""

from copy import copy
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def own_copy(columns: T, **instead: object) -> T:
    """A copy whose arrays, lists, sets and dictionaries can be changed; what is in those is shared.
    `instead`: other values for some of its attributes."""
    twin = copy(columns)
    for name, value in vars(twin).items():
        if name in instead:
            setattr(twin, name, instead[name])
        elif isinstance(value, np.ndarray | dict | list | set):
            setattr(twin, name, value.copy())
    return twin
