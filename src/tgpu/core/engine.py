"""The kernel's functions, plain or compiled: the same code either way.

Plain, they need nothing but NumPy: right for one machine and its queue. Compiled, they are loaded from a
cache on disk (or compiled, once): right for clusters. Nobody but this file knows which of the two runs.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from tgpu.core.kernel import (
    best_node,
    earliest,
    filling,
    fragments,
    gangs,
    promises,
    room,
    scores,
    shapes,
    skipping,
    sorting,
    turns,
    victim_answer,
    victim_bounds,
    victim_branches,
    victim_greedy,
    victim_search,
    victims,
)

MODULES: tuple[ModuleType, ...] = (
    room, fragments, scores, turns, promises, best_node, skipping, filling, gangs, earliest, sorting,
    victims, victim_answer, victim_bounds, victim_branches, victim_greedy, victim_search,
)  # fmt: skip
HOT = frozenset(
    {
        "has_room", "enough_devices", "score", "opinion", "tightest", "part_of_gpus", "catch_up",
        "renew_block", "first_best", "next_row", "comes_first", "sift_down", "charge", "charge_use", "settle",
        "share", "next_open", "licensed", "note_change", "write_down", "stays", "may_be_on",
        "is_passed_over", "count_start", "is_open",
    }
)  # fmt: skip
"""Called for every placement: a call with so many arrays costs more than what these do."""
_ALLOCATING = (
    fragments, gangs, earliest, skipping, victims, victim_answer, victim_bounds, victim_branches,
    victim_greedy, victim_search,
)  # fmt: skip
"""The others make no arrays: without counting references to those they read they are several times faster."""
Engine = SimpleNamespace
"""Every function of the kernel, by its name."""


def _functions() -> dict[str, FunctionType]:
    return {
        name: item
        for module in MODULES
        for name, item in vars(module).items()
        if isinstance(item, FunctionType) and item.__module__ == module.__name__
    }


PLAIN = Engine(**_functions())


def plain_with(replaced: Mapping[str, Callable[..., Any]]) -> Engine:
    """Uncompiled, with some functions replaced, also where the others call them."""
    return _twins(lambda function: function, replaced)


@cache
def compiled(cache_dir: str | None) -> Engine:
    """Machine code of the same functions; without a directory they are compiled in every process."""
    import numba  # noqa: PLC0415  a small installation never loads it

    allocating = {module.__name__ for module in _ALLOCATING}
    if cache_dir is not None:
        numba.config.CACHE_DIR = cache_dir  # type: ignore[attr-defined]  # set at run time

    def compile_one(function: FunctionType) -> Any:  # noqa: ANN401  what Numba makes of it
        hot, allocates = function.__name__ in HOT, function.__module__ in allocating
        options = {"nogil": True, "cache": cache_dir is not None, "forceinline": hot, "_nrt": allocates}
        njit: Any = numba.njit  # its stubs do not know `_nrt`
        return njit(**options)(function)

    return _twins(compile_one, {})


def _twins(compile_one: Callable[[FunctionType], Any], replaced: Mapping[str, Callable[..., Any]]) -> Engine:
    """Copies that see each other instead of the plain ones: calls inside the kernel stay among them."""
    namespace: dict[str, Any] = {}
    for module in (shapes, *MODULES):
        namespace.update(vars(module))
    functions = _functions()
    for name, function in functions.items():
        twin = FunctionType(function.__code__, namespace, name, function.__defaults__)
        twin.__annotations__ = {}
        twin.__qualname__ = name
        twin.__module__ = function.__module__
        namespace[name] = replaced.get(name) or compile_one(twin)
    return Engine(**{name: namespace[name] for name in functions})
