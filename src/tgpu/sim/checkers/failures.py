"""No server, agent or task of theirs ends in a way that nobody meant."""

from collections.abc import Iterator

from tgpu.sim.facts import Facts, Watcher


class NobodyFails(Watcher):
    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def now_and_then(self) -> Iterator[str]:
        while self._facts.failures:
            yield self._facts.failures.pop()
