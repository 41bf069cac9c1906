"""Plain functions that wait for awaitables: each runs on a stack of its own, which is set aside meanwhile.

So code that reads as if it blocked is written once, and runs on a loop that it does not hold up.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

import greenlet

P = ParamSpec("P")
R = TypeVar("R")


class _Stack(greenlet.greenlet):
    """On which one call runs. Its parent is the stack of the loop."""


async def on_a_stack(ask: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Runs a plain function that may call `wait_for`. If this is cancelled, so is what it waits for."""
    stack = _Stack(ask)
    stack.gr_context = greenlet.getcurrent().gr_context
    answer: Any = stack.switch(*arguments, **named)
    while not stack.dead:
        try:
            came = await answer
        except BaseException:  # noqa: BLE001  it is told where it waits, and whatever leaves it comes out here
            answer = stack.throw(*sys.exc_info())
        else:
            answer = stack.switch(came)
    result: R = answer
    return result


def wait_for(awaitable: Awaitable[R]) -> R:
    """What it comes to. Only within `on_a_stack`."""
    stack = greenlet.getcurrent()
    assert isinstance(stack, _Stack)
    assert stack.parent is not None
    came: R = stack.parent.switch(awaitable)
    return came
