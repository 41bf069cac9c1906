"""A deposed leader writes nothing, and no agent goes back to an older epoch."""

from collections.abc import Iterator

from tgpu.sim.facts import Facts, Watcher
from tgpu.store.port import Batch, Receipt


class DeposedWriteNothing(Watcher):
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._epochs: dict[str, int] = {}

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del batch, receipt
        if epoch != self._facts.epoch:
            yield f"epoch {epoch} committed, {self._facts.epoch} leads"

    def greeted(self, agent: str, epoch: int) -> Iterator[str]:
        newest = self._epochs.get(agent, 0)
        if epoch < newest:
            yield f"{agent} follows epoch {epoch} after epoch {newest}"
        self._epochs[agent] = max(epoch, newest)
