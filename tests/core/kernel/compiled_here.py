"""Compiled twins of some kernel modules, made the way the product makes them: in one flat namespace."""

import types
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from tgpu.core.kernel import shapes


def compiled(*modules: types.ModuleType) -> dict[str, Callable[..., Any]]:
    """Every function of these modules by name; they call each other's twins."""
    twins: dict[str, Any] = {"np": np, **{name: getattr(shapes, name) for name in dir(shapes)}}
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, types.FunctionType):
                copy = types.FunctionType(value.__code__, twins, name, value.__defaults__)
                twins[name] = numba.njit(nogil=True)(copy)
            elif isinstance(value, int | float) and not name.startswith("_"):
                twins[name] = value
    return twins
