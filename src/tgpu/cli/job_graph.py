"""Jobs that wait for each other, drawn as a tree, or in Graphviz's language."""

from __future__ import annotations

from tgpu.cli.screen import STATUS_STYLES, clean

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tgpu.cli.screen import Screen

_USUAL = "afterok"


class JobGraph:
    def __init__(self, answer: dict[str, Any]) -> None:
        self._jobs: dict[int, dict[str, Any]] = {job["job_id"]: job for job in answer["jobs"]}
        self._ways: dict[int, list[tuple[int, str]]] = {job_id: [] for job_id in self._jobs}
        """To each job, from which others, and how those must have ended."""
        self._behind: dict[int, list[int]] = {job_id: [] for job_id in self._jobs}
        self._alone: set[int] = set()
        for need in answer["needs"]:
            job_id, on = need["job_id"], need["on_job_id"]
            if on is None:
                self._alone.add(job_id)
            else:
                self._ways[job_id].append((on, need["kind"]))
                if job_id not in self._behind[on]:
                    self._behind[on].append(job_id)

    def tree(self, screen: Screen) -> Iterator[str]:
        """Each job once, below the last of those that it waits for; the others are named beside it."""
        for job_id in self._jobs:
            if not self._ways[job_id]:
                yield self._line(screen, job_id, None)
                yield from self._below(screen, job_id)

    def _below(self, screen: Screen, top: int) -> Iterator[str]:
        """Not by recursion: a chain may be long."""
        stack = [self._children(top, "")]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                continue
            job_id, parent, lead, is_last = following
            branch, further = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            yield f"{lead}{branch}{self._line(screen, job_id, parent)}"
            stack.append(self._children(job_id, lead + further))

    def _children(self, job_id: int, lead: str) -> Iterator[tuple[int, int, str, bool]]:
        theirs = [each for each in self._behind[job_id] if self._parent(each) == job_id]
        return ((each, job_id, lead, each == theirs[-1]) for each in theirs)

    def _parent(self, job_id: int) -> int:
        return max(on for on, _ in self._ways[job_id])

    def _line(self, screen: Screen, job_id: int, parent: int | None) -> str:
        job = self._jobs[job_id]
        status = screen.paint(job["status"], STATUS_STYLES.get(job["status"], ""))
        parts = [f"{job_id} {clean(job['name'])}", status]
        kinds = [kind for on, kind in self._ways[job_id] if on == parent and kind != _USUAL]
        parts += kinds
        others = [_way(on, kind) for on, kind in self._ways[job_id] if on != parent]
        if others:
            parts.append(f"also after {', '.join(others)}")
        return ", ".join([*parts, *self._apart(job_id)])

    def _apart(self, job_id: int) -> list[str]:
        """What it waits for that is no other job in the drawing."""
        held_by = self._jobs[job_id]["held_by"]
        singleton = ["singleton"] if job_id in self._alone else []
        return [*singleton, f"held by {clean(held_by)}"] if held_by else singleton

    def dot(self) -> Iterator[str]:
        yield "digraph jobs {"
        for job_id, job in self._jobs.items():
            name = clean(job["name"]).replace("\\", "\\\\").replace('"', "'")
            about = "\\n".join([f"{job_id} {name}", job["status"], *self._apart(job_id)])
            yield f'  {job_id} [label="{about}"];'
        for job_id, ways in self._ways.items():
            for on, kind in ways:
                said = "" if kind == _USUAL else f' [label="{kind}"]'
                yield f"  {on} -> {job_id}{said};"
        yield "}"


def _way(on: int, kind: str) -> str:
    return str(on) if kind == _USUAL else f"{on} ({kind})"
