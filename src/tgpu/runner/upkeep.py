"""What has to be looked after now and then: whoever vanished, whatever was lost, whatever is old."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tgpu.observe.logs import logger
from tgpu.runner.folders import Folders
from tgpu.runner.journal import Claim, Journals
from tgpu.runner.known import Known, Tracked
from tgpu.runner.survey import Surveyor

CHECK_S = 2.0
"""How often it is checked that every running attempt still has its supervisor."""
LAUNCH_AGAIN_S = 30.0
"""An order that nothing has come of for so long is given again; it cannot run twice."""
REFUSE_AGAIN_S = 600.0
"""How long a forgotten attempt is kept from running again: longer than any order can be under way."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """One round every two seconds; a full disk spoils a round, not the next."""

    known: Known
    folders: Folders
    journals: Journals
    surveyor: Surveyor
    send_again: Callable[[Tracked], None]
    begin_journal: Callable[[], None]
    stop_again: Callable[[str], None]

    async def go_on(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                await self._find_vanished()
                await self._find_unheard()
                self._stop_the_unstopped()
                self._tend_journals()
                await self._refuse_no_longer()
            except OSError as error:
                logger("runner").warning("upkeep-failed", error=str(error))

    async def _find_vanished(self) -> None:
        """Whose supervisor is gone has either recorded its end, and we have not heard, or never will."""
        running = self.known.running()
        gone = await asyncio.to_thread(_gone, running)
        if gone:
            exits = (await asyncio.to_thread(self.journals.read)).exits
            lost: dict[str, Claim | None] = {name: running[name] for name in gone if name not in exits}
            exits |= await asyncio.to_thread(self.surveyor.bury, lost, set(lost))
            for attempt in gone:
                self.known.ended(attempt, exits[attempt])

    async def _find_unheard(self) -> None:
        """An order of which nothing was heard was either carried out, and nobody told us, or was lost."""
        now = asyncio.get_running_loop().time()
        unheard = self.known.unheard(now - CHECK_S)
        claimed = [name for name in unheard if self.folders.is_claimed(name)]
        if claimed:
            contents = await asyncio.to_thread(self.journals.read)
            for attempt in claimed:
                if attempt in contents.exits:
                    self.known.ended(attempt, contents.exits[attempt])
                elif attempt in contents.claims:
                    self.known.started(attempt, contents.claims[attempt])
        late = self.known.unheard(now - LAUNCH_AGAIN_S)
        # Claimed, and yet without a line for so long: its supervisor was killed in between.
        lost = dict.fromkeys(name for name in late if name in claimed)
        for attempt, end in (await asyncio.to_thread(self.surveyor.bury, lost, set(lost))).items():
            self.known.ended(attempt, end)
        for attempt in self.known.unheard(now - LAUNCH_AGAIN_S):
            self.send_again(self.known.attempts[attempt])

    def _stop_the_unstopped(self) -> None:
        for attempt, tracked in list(self.known.attempts.items()):
            if tracked.stop is not None and not tracked.ended:
                self.stop_again(attempt)

    def _tend_journals(self) -> None:
        if self.journals.is_full():
            self.begin_journal()
        self.journals.keep_reserve()
        self.journals.remove_unused(self.known.generations_in_use())

    async def _refuse_no_longer(self) -> None:
        now = asyncio.get_running_loop().time()
        old = self.known.refuse_no_longer(now - REFUSE_AGAIN_S)
        await asyncio.to_thread(self.folders.drop, old)


def _gone(running: dict[str, Claim]) -> list[str]:
    return [attempt for attempt, claim in running.items() if not claim.is_alive()]
