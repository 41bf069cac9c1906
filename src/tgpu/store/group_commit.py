"""The one thread that writes: it takes whatever has queued up and commits it together.

Nobody is answered before the commit has returned. What shares a transaction depends on the database. Where
this is the only writer (SQLite), everything does: each piece of work runs in its own savepoint, so one that
fails is undone alone, and all others share one COMMIT and its wait for the disk. Where others write too
(PostgreSQL), only work of one kind does, so that its locks are taken in one order. Pieces of one kind even
share their statements: each statement lets go of the interpreter, and under load it takes longer to get that
back than to run it.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar

from tgpu.store.port import StoreUnavailableError
from tgpu.store.refusals import StoreError
from tgpu.store.sql.session import Session

_MOST_AT_ONCE = 1000
_TRIES = 6
_REST_S = 0.005

T = TypeVar("T")


Together = Callable[[Session, Sequence[Any]], Sequence[Any]]
"""Does the work of several callers: takes their items, gives their answers, or raises for all of them. An
answer that is a refusal is raised for its caller, and concerns nobody else."""


class Savepoints(Protocol):
    """The points that one part of a transaction is undone to."""

    def make(self) -> None: ...

    def undo(self) -> None: ...

    def release(self) -> None: ...


class Driver(Protocol):
    """What the writer has to know of its database; only its thread asks."""

    @property
    def savepoints(self) -> Savepoints | None:
        """None where others write too, and work of different kinds is kept apart."""
        ...

    def begin(self) -> Session: ...

    def commit(self, *, wakes: bool) -> None:
        """`wakes`: other servers are to be told that users asked for something."""
        ...

    def roll_back(self) -> None:
        """The transaction, if there is one; never raises."""
        ...

    def is_passing(self, error: Exception) -> bool:
        """Somebody else was in the way: the whole transaction may be run again."""
        ...

    def is_trouble(self, error: Exception) -> bool:
        """It concerns the database, and with it everybody, rather than one request."""
        ...

    def unavailable(self, error: Exception) -> StoreUnavailableError:
        """What is told to everybody whose transaction met it."""
        ...

    def close(self) -> None: ...


@dataclass(slots=True, eq=False)
class _Piece:
    """One caller's item of work, and the answer it waits for."""

    together: Together
    item: Any
    wakes: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None
    wrote_events: bool = False


class _WorkError(Exception):
    """The work itself raised; the database is well."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class GroupCommit:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.wakes: list[Callable[[], None]] = []
        """Called on the callers' loop after a commit with work that asked for it."""
        self.event_wakes: list[Callable[[], None]] = []
        """Called there after a commit that added to the feed."""
        self._queue: SimpleQueue[_Piece | None] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Session], T], *, wakes: bool = False) -> T:
        """Work that shares nothing but the commit."""
        result: T = await self.write_jointly(lambda session, _: [work(session)], None, wakes=wakes)
        return result

    async def write_jointly(self, together: Together, item: object, *, wakes: bool = False) -> Any:  # noqa: ANN401  what `together` gives
        """Pieces with the same `together` are done in one go; if that fails, apart."""
        if self._closed:
            raise StoreUnavailableError("the store is closed: start the server again")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.put(_Piece(together, item, wakes, loop, future))
        return await future

    def close(self) -> None:
        """Finishes what is queued; blocks until then."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        self._driver.close()

    def _run(self) -> None:
        going_on = True
        while going_on:
            taken = self._take()
            pieces = [piece for piece in taken if piece is not None]
            going_on = len(pieces) == len(taken)
            for sharing in self._transactions(pieces):
                self._commit(sharing)
                self._answer(sharing)

    def _take(self) -> list[_Piece | None]:
        """Waits for the first, then takes all that is there."""
        taken = [self._queue.get()]
        try:
            while len(taken) < _MOST_AT_ONCE:
                taken.append(self._queue.get_nowait())
        except Empty:
            pass
        return taken

    def _transactions(self, pieces: list[_Piece]) -> Iterable[list[_Piece]]:
        if self._driver.savepoints is not None:
            return [pieces] if pieces else []
        kinds: defaultdict[Together, list[_Piece]] = defaultdict(list)
        for piece in pieces:
            kinds[piece.together].append(piece)
        return kinds.values()

    def _commit(self, pieces: list[_Piece]) -> None:
        savepoints = self._driver.savepoints
        for tries_left in range(_TRIES - 1, -1, -1):
            try:
                if savepoints is None or len(pieces) == 1:
                    self._run_as_one(pieces)
                else:
                    self._run_apart(pieces, savepoints)
            except Exception as error:  # noqa: BLE001  whatever it is, every caller is told
                self._driver.roll_back()
                cause = error.error if isinstance(error, _WorkError) else error
                if tries_left and self._driver.is_passing(cause):
                    time.sleep(_REST_S * (_TRIES - tries_left))
                    continue
                if isinstance(error, _WorkError):
                    self._blame(pieces, cause)
                else:
                    self._fail(pieces, cause)
            return

    def _blame(self, pieces: list[_Piece], error: Exception) -> None:
        """One of them is at fault: the halves lead to it."""
        if len(pieces) == 1:
            pieces[0].error = error
            return
        half = len(pieces) // 2
        self._commit(pieces[:half])
        self._commit(pieces[half:])

    def _fail(self, pieces: list[_Piece], error: Exception) -> None:
        told = self._driver.unavailable(error)
        for piece in pieces:
            piece.result, piece.error = None, type(told)(told.why, told.outcome)
            piece.error.__cause__ = error

    def _run_as_one(self, pieces: list[_Piece]) -> None:
        """Without savepoints: if it fails for somebody, the whole transaction is undone."""
        session = self._driver.begin()
        try:
            self._run_together(session, pieces)
        except Exception as error:
            if self._driver.is_trouble(error):
                raise
            raise _WorkError(error) from error
        if all(piece.error is not None for piece in pieces):
            self._driver.roll_back()  # who was refused has changed nothing
        else:
            self._driver.commit(wakes=any(piece.wakes for piece in pieces if piece.error is None))

    def _run_apart(self, pieces: list[_Piece], savepoints: Savepoints) -> None:
        """Each kind in a savepoint, and if somebody in it is refused, each piece."""
        session = self._driver.begin()
        for _, neighbours in groupby(pieces, key=lambda piece: piece.together):
            self._run_neighbours(session, list(neighbours), savepoints)
        self._driver.commit(wakes=any(piece.wakes for piece in pieces if piece.error is None))

    def _run_neighbours(self, session: Session, pieces: list[_Piece], savepoints: Savepoints) -> None:
        error = self._run_in_savepoint(session, pieces, savepoints)
        if error is None:
            return
        if len(pieces) == 1:
            pieces[0].error = error
            return
        for piece in pieces:
            error = self._run_in_savepoint(session, [piece], savepoints)
            if error is not None:
                piece.error = error

    def _run_in_savepoint(
        self, session: Session, pieces: list[_Piece], savepoints: Savepoints
    ) -> Exception | None:
        savepoints.make()
        failure: Exception | None = None
        try:
            self._run_together(session, pieces)
        except Exception as error:
            if self._driver.is_trouble(error):
                raise  # it is everybody's: the database may have undone the whole transaction
            savepoints.undo()
            failure = error
        savepoints.release()
        return failure

    def _run_together(self, session: Session, pieces: list[_Piece]) -> None:
        session.wrote_events = False
        results = pieces[0].together(session, [piece.item for piece in pieces])
        for piece, result in zip(pieces, results, strict=True):
            piece.error = result if isinstance(result, StoreError) else None
            piece.result, piece.wrote_events = result, session.wrote_events

    def _answer(self, pieces: list[_Piece]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Piece]] = defaultdict(list)
        for piece in pieces:
            by_loop[piece.loop].append(piece)
        for loop, answered in by_loop.items():
            try:
                loop.call_soon_threadsafe(self._deliver, answered)
            except RuntimeError:
                continue  # the loop was closed: nobody is left to be told

    def _deliver(self, pieces: list[_Piece]) -> None:
        for piece in pieces:
            if piece.future.done():
                continue  # its caller was cancelled
            if piece.error is None:
                piece.future.set_result(piece.result)
            else:
                piece.future.set_exception(piece.error)
        done = [piece for piece in pieces if piece.error is None]
        if any(piece.wakes for piece in done):
            for wake in self.wakes:
                wake()
        if any(piece.wrote_events for piece in done):
            for wake in self.event_wakes:
                wake()
