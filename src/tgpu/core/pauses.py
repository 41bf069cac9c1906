"""Where the kernel comes back though it need not: a plan of very many starts can end there and go on later.

So somebody more urgent who has come meanwhile need not wait for all of it. A plan that ends early is the
beginning of the longer one: the next one goes on where it stood.
"""

from tgpu.core.kernel.shapes import Stream
from tgpu.core.paper import Paper

STRIDE = 127
"""Every so manieth in a stream. A prime: where kinds come in turns, not all pauses fall on one kind."""


class Pauses:
    """The kernel leaves to others whoever it finds marked, as it does with gangs; these marks are lifted."""

    def __init__(self, paper: Paper, most: int | None) -> None:
        self._paper, self._most = paper, most
        self._marked: set[int] = set()

    @property
    def enough(self) -> bool:
        """Whether the plan has so many starts that it should end. A gang is not cut in two for that."""
        return self._most is not None and int(self._paper.started.filled[0]) >= self._most

    def mark(self, stream: Stream) -> None:
        """Before the kernel walks through it; nothing where all of them may start."""
        if self._most is None or int(self._paper.started.filled[0]) + len(stream.slots) <= self._most:
            return
        waiting = self._paper.waiting
        stride = min(STRIDE, self._most)
        slots = stream.slots[stride::stride]
        slots = slots[~waiting.gang[slots]]
        self._marked.update(slots.tolist())
        own = waiting.gang.copy()
        own[slots] = True
        self._paper.waiting = waiting._replace(gang=own)

    def lift(self, slot: int) -> bool:
        """Whether it was only a pause: then it is tried as if there had been none."""
        if slot not in self._marked:
            return False
        self._marked.discard(slot)
        self._paper.waiting.gang[slot] = False
        return True
