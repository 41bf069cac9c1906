"""The kernel as a cluster runs it: loaded from the cache that `make kernel` fills."""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from tgpu.core.engine import Engine
from tgpu.wiring import kernel_cache

SIGNATURES: dict[str, int] = {}
"""How many kinds of arguments each function was compiled for when it was loaded: tests may add others."""


@cache
def compiled_engine() -> Engine:
    loaded = kernel_cache.load(os.environ)
    SIGNATURES.update({name: len(function.signatures) for name, function in vars(loaded).items()})
    return loaded


def compiled() -> dict[str, Callable[..., Any]]:
    """Every function by its name."""
    return vars(compiled_engine())
