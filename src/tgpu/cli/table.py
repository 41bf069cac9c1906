"""Tables that fit the terminal: wide columns are cut first, then unimportant ones left out."""

from __future__ import annotations

from tgpu.cli import screen as terminal
from tgpu.cli.screen import clean

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tgpu.cli.screen import Screen

_GAP = "  "


class Column:
    """`floor`: may be cut down to so many characters. `rank`: the highest is left out first; 0 never.
    `most`: on a terminal never wider than that."""

    __slots__ = ("floor", "most", "rank", "right", "title")

    def __init__(
        self,
        title: str,
        *,
        right: bool = False,
        floor: int | None = None,
        rank: int = 0,
        most: int | None = None,
    ) -> None:
        self.most = most
        self.title = title
        self.right = right
        self.floor = floor
        self.rank = rank


class Cell:
    """Text with a style; a plain string is a cell without one."""

    __slots__ = ("style", "text")

    def __init__(self, text: object, style: str) -> None:
        self.text = clean(text)
        self.style = style


def table(screen: Screen, columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]]) -> Iterator[str]:
    """A line of titles and one per row. A column without any content is left out."""
    cells = [[cell if isinstance(cell, Cell) else Cell(cell, "") for cell in row] for row in rows]
    shown = [at for at in range(len(columns)) if not cells or any(row[at].text for row in cells)]
    widths = {
        at: max([len(columns[at].title), *(terminal.columns(row[at].text) for row in cells)]) for at in shown
    }
    if screen.width is not None:
        bounded = {at: min(size, columns[at].most or size) for at, size in widths.items()}
        widths = _fit(columns, bounded, screen.width)
    yield screen.paint(_line(columns, widths, [Cell(column.title, "") for column in columns], screen), "bold")
    for row in cells:
        yield _line(columns, widths, row, screen)


def _fit(columns: Sequence[Column], widths: dict[int, int], width: int) -> dict[int, int]:
    fitted = dict(widths)
    excess = sum(fitted.values()) + len(_GAP) * (len(fitted) - 1) - width
    for at in sorted(fitted, key=lambda at: -fitted[at]):
        floor = columns[at].floor
        if excess > 0 and floor is not None:
            cut = max(0, min(excess, fitted[at] - max(floor, len(columns[at].title))))
            fitted[at] -= cut
            excess -= cut
    if excess > 0:
        out = max(fitted, key=lambda at: columns[at].rank)
        if columns[out].rank:
            return _fit(columns, {at: size for at, size in widths.items() if at != out}, width)
    return fitted


def _line(columns: Sequence[Column], widths: dict[int, int], row: Sequence[Cell], screen: Screen) -> str:
    parts = []
    for at, width in widths.items():
        text = terminal.cut(row[at].text, width)
        padding = " " * (width - terminal.columns(text))
        padded = padding + text if columns[at].right else text + padding
        parts.append(screen.paint(padded, row[at].style))
    return _GAP.join(parts).rstrip()
