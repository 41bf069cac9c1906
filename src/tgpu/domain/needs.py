"""What a job waits for before it may start: other jobs, and how those must have ended."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from tgpu.domain.ids import MAX_JOB_ID
from tgpu.domain.lifecycle import Status
from tgpu.domain.quantities import BadQuantityError

MAX_NEEDS = 10_000
"""Of one job."""


class NeedKind(StrEnum):
    """How the other job must have ended."""

    OK = "afterok"
    """It completed."""
    NOT_OK = "afternotok"
    """It failed, or was cancelled."""
    ANY = "afterany"
    """It is over, however."""
    CORR = "aftercorr"
    """Index by index: that index of it completed."""
    SINGLETON = "singleton"
    """No older job of the same user and name is live; of no job in particular."""

    def is_met_by(self, status: Status) -> bool:
        """Of a job, or a task, that is over."""
        if self is NeedKind.OK or self is NeedKind.CORR:
            return status is Status.COMPLETED
        return self is NeedKind.ANY or status is not Status.COMPLETED


class Need(NamedTuple):
    kind: NeedKind
    on: int
    """The other job's id; of a singleton 0."""
    within: bool = False
    """`on` is a place among the jobs that are submitted together: it has no number yet."""


SINGLETON = Need(NeedKind.SINGLETON, 0)
_FORM = "41, afterok:41:42, afternotok:41, afterany:41, aftercorr:41 or singleton"
_KINDS = {kind.value: kind for kind in NeedKind}


def parse_needs(name: str, texts: Sequence[str]) -> tuple[Need, ...]:
    """`41`, `afterok:41:42`, `singleton`, several of them with commas: all of them hold. Each once."""
    found: dict[Need, None] = {}
    for text in texts:
        for part in text.split(","):
            found.update(dict.fromkeys(_parse_part(name, part.strip())))
    if len(found) > MAX_NEEDS:
        raise BadQuantityError(f"{name} may name at most {MAX_NEEDS} jobs; got {len(found)}")
    return tuple(found)


def _parse_part(name: str, part: str) -> list[Need]:
    if "?" in part:
        raise BadQuantityError(
            f"{name} cannot wait for one of several jobs; all that it names must end: write commas for '?'"
        )
    first, *rest = part.split(":")
    if first == NeedKind.SINGLETON and not rest:
        return [SINGLETON]
    kind = _KINDS.get(first)
    if kind is NeedKind.SINGLETON or (kind is None and not _is_number(first)):
        raise BadQuantityError(f"{name} must be like {_FORM}; got {part[:80]!r}")
    ids = rest if kind is not None else [first, *rest]
    if not ids:
        raise BadQuantityError(f"{name}: {first} must say of which job, such as {first}:41")
    return [Need(kind or NeedKind.OK, _job_id(name, text)) for text in ids]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _job_id(name: str, text: str) -> int:
    if not _is_number(text) or len(text) > len(str(MAX_JOB_ID)) or not 0 < int(text) <= MAX_JOB_ID:
        raise BadQuantityError(f"{name} must name jobs by their numbers, such as 41; got {text[:80]!r}")
    return int(text)


def parse_named_need(name: str, text: str) -> tuple[NeedKind, str]:
    """`prepare`, or `afterany:prepare`: a job of the same file, which has no number yet."""
    first, colon, rest = text.partition(":")
    kind = _KINDS.get(first) if colon else None
    if kind is NeedKind.SINGLETON or not (rest if kind else text):
        raise BadQuantityError(f"{name} must be the name of another job, or afterany:NAME; got {text[:80]!r}")
    return (kind, rest) if kind else (NeedKind.OK, text)


def words_of(need: Need) -> str:
    """As it is written."""
    return need.kind.value if need.kind is NeedKind.SINGLETON else f"{need.kind.value}:{need.on}"


def numbered(needs: Sequence[Need], first_id: int) -> tuple[Need, ...]:
    """With the ids of the jobs that were submitted together, now that these are known."""
    return tuple(Need(need.kind, first_id + need.on) if need.within else need for need in needs)


def circle(needs: Mapping[int, Sequence[int]]) -> list[int] | None:
    """A way through these that comes back to its beginning, if there is one: `[a, b, a]`."""
    done: set[int] = set()
    for start in needs:
        path: list[int] = []
        on_path: dict[int, int] = {}
        stack = [(start, iter(needs.get(start, ())))] if start not in done else []
        while stack:
            here, others = stack[-1]
            if here not in on_path:
                on_path[here] = len(path)
                path.append(here)
            for other in others:
                if other in on_path:
                    return [*path[on_path[other] :], other]
                if other not in done:
                    stack.append((other, iter(needs.get(other, ()))))
                    break
            else:
                stack.pop()
                path.pop()
                del on_path[here]
                done.add(here)
    return None
