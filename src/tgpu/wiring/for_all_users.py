"""Whether every user of the machine can run this installation, not only who made it."""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

REMEDY = (
    "move this tree where all may read, such as /opt/tgpu, and there: "
    "rm -rf .venv && make install PYTHON=/usr/bin/python3"
)
_MOST_LINKS = 40  # as the kernel follows


def closed_to_others(executable: Path | None = None) -> Path | None:
    """The first place on the way to the interpreter, or to this package, that others may not pass; None: they
    can run it."""
    program = Path(sys.executable) if executable is None else executable
    package = Path(__file__).resolve().parent.parent
    ways = [*_links(program.absolute()), program.resolve(), *([package] if executable is None else [])]
    return next((closed for path in ways if (closed := closed_on_the_way(path)) is not None), None)


def closed_on_the_way(path: Path) -> Path | None:
    """The first directory on the way to a path, or the path itself, that other users may not pass."""
    places = (*reversed(path.parents), path)
    return next((place for place in places if not _is_passable(place)), None)


def _links(path: Path) -> Iterator[Path]:
    """A path, and every one that it is a link to."""
    for _ in range(_MOST_LINKS):
        yield path
        if not path.is_symlink():
            return
        path = Path(os.path.normpath(path.parent / path.readlink()))


def _is_passable(place: Path) -> bool:
    return place.is_symlink() or bool(place.stat().st_mode & stat.S_IXOTH)
