"""The kernel as a cluster runs it: loaded from the cache that `make install` fills."""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from tgpu.core.engine import Engine
from tgpu.wiring import kernel_cache


@cache
def compiled_engine() -> Engine:
    return kernel_cache.load(os.environ)


def compiled() -> dict[str, Callable[..., Any]]:
    """Every function by its name."""
    return vars(compiled_engine())
