"""Gets tasks of gangs ready before any starts: their images are here, and their containers can be made."""

import asyncio

from tgpu.domain.lifecycle import Cause
from tgpu.observe.disk_space import is_full
from tgpu.observe.logs import logger
from tgpu.runner import checkpoint_folder
from tgpu.runner.disk_words import DISK_FULL
from tgpu.runner.docker.engine import EngineAwayError, EngineRefusedError
from tgpu.runner.docker.keeper import NoEngineError
from tgpu.runner.docker.life import AWAY_S, NOT_ANSWERED, Shared
from tgpu.runner.docker.patience import Patience, refused_words
from tgpu.runner.port import AttemptNoted, CouldNotPrepareError, LaunchSpec
from tgpu.runner.task import Refusal


class Readying:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._at_work: dict[str, asyncio.Task[None]] = {}
        self._ready: set[str] = set()

    async def prepare(self, spec: LaunchSpec) -> None:
        """Raises CouldNotPrepareError."""
        work = self._at_work[spec.attempt] = asyncio.get_running_loop().create_task(self._prepare(spec))
        try:
            await work
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # not this attempt is to be dropped, but the agent ends
            raise CouldNotPrepareError("it is not to start any more") from None
        except Refusal as refusal:
            await asyncio.to_thread(checkpoint_folder.remove_if_empty, spec.checkpoint_dir)
            raise CouldNotPrepareError(str(refusal)) from refusal
        except NoEngineError as error:
            raise CouldNotPrepareError(NOT_ANSWERED, Cause.NODE_LOST) from error
        except CouldNotPrepareError:
            raise
        except Exception as error:
            if is_full(error):
                raise CouldNotPrepareError(DISK_FULL, Cause.NODE_LOST) from error
            logger("runner").exception("a container was not prepared", attempt=spec.attempt)
            why = "the agent of its node failed to prepare it; its log says why"
            raise CouldNotPrepareError(why) from error
        finally:
            if self._at_work.get(spec.attempt) is work:
                del self._at_work[spec.attempt]
        self._ready.add(spec.attempt)

    def drop(self, attempt: str) -> None:
        """An image that is on its way comes all the same: the next attempt is likely to want it."""
        self._ready.discard(attempt)
        work = self._at_work.pop(attempt, None)
        if work is not None:
            work.cancel()

    def close(self) -> None:
        for attempt in list(self._at_work):
            self.drop(attempt)

    def took(self, attempt: str) -> bool:
        """Whether it was got ready, and now starts."""
        was_ready = attempt in self._ready
        self._ready.discard(attempt)
        return was_ready

    async def _prepare(self, spec: LaunchSpec) -> None:
        shared = self._shared
        assert spec.container is not None

        def note(words: str) -> None:
            if spec.attempt in self._at_work:
                shared.tell(AttemptNoted(spec.attempt, words))

        patience = Patience(shared.keeper)
        while True:
            engine, about = await shared.keeper.engine(AWAY_S)
            try:
                await shared.puller.provide(engine, spec.container, note)
                await shared.maker.try_out(engine, about, spec)
            except EngineAwayError:
                patience.begins_anew()
                shared.keeper.lost()
            except EngineRefusedError as error:
                if not await patience.lasts(error):
                    cause = patience.cause(error)
                    if cause is Cause.NODE_LOST:
                        raise CouldNotPrepareError(refused_words(error), cause) from error
                    raise Refusal(refused_words(error)) from error
            else:
                return
