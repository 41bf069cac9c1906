"""Three renderers of one answer: for people, as JSON, and bare."""

from __future__ import annotations

import json
import sys

from tgpu.cli.screen import Screen

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable


class Answer:
    """`data` is what the API said; `people` draws it; `quiet` is what a script wants of it, a line each."""

    __slots__ = ("data", "people", "quiet")

    def __init__(
        self, data: object, people: Callable[[Screen], Iterable[str]], quiet: Iterable[object] = ()
    ) -> None:
        self.data = data
        self.people = people
        self.quiet = quiet


def show(answer: Answer, args: Namespace) -> None:
    screen = Screen(sys.stdout)
    if args.json:
        # Without indent the encoder runs in C, which long lists need; people get it readable.
        print(json.dumps(answer.data, indent=2 if screen.is_terminal else None))
    elif getattr(args, "quiet", False):
        for line in answer.quiet:
            print(line)
    else:
        for line in answer.people(screen):
            print(line)
