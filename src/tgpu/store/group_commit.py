"""The one thread that writes: it takes whatever has queued up and commits it together.

Each piece of work runs in its own savepoint, so one that fails is undone alone; all others share one COMMIT
and its wait for the disk. Nobody is answered before that has returned. Pieces of one kind that stand next to
each other may even share their statements: each statement lets go of the interpreter, and under load it takes
longer to get that back than to run the statement.
"""

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from tgpu.store.port import StoreUnavailableError
from tgpu.store.sql.session import Session
from tgpu.store.sqlite_errors import advice, unavailable
from tgpu.store.sqlite_file import session_on

_MOST_AT_ONCE = 1000

T = TypeVar("T")


Together = Callable[[Session, Sequence[Any]], Sequence[Any]]
"""Does the work of several callers: takes their items, gives their answers, or raises for all of them."""


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


class GroupCommit:
    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self.wakes: list[Callable[[], None]] = []
        """Called on the callers' loop after a commit with work that asked for it."""
        self._session = session_on(connection)
        self._queue: SimpleQueue[_Piece | None] = SimpleQueue()
        self._closed = False
        self._thread = Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Session], T], *, wakes: bool = False) -> T:
        """Work that shares nothing but the commit."""
        result: T = await self.write_jointly(lambda session, _: [work(session)], None, wakes=wakes)
        return result

    async def write_jointly(self, together: Together, item: object, *, wakes: bool = False) -> Any:  # noqa: ANN401  what `together` gives
        """Neighbours with the same `together` are done in one go; if that fails, one by one."""
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
        self._session.close()
        self._connection.close()

    def _run(self) -> None:
        going_on = True
        while going_on:
            taken = self._take()
            pieces = [piece for piece in taken if piece is not None]
            going_on = len(pieces) == len(taken)
            if pieces:
                self._commit(pieces)
                self._answer(pieces)

    def _take(self) -> list[_Piece | None]:
        """Waits for the first, then takes all that is there."""
        taken = [self._queue.get()]
        try:
            while len(taken) < _MOST_AT_ONCE:
                taken.append(self._queue.get_nowait())
        except Empty:
            pass
        return taken

    def _commit(self, pieces: list[_Piece]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if len(pieces) == 1:
                if not self._run_alone(pieces[0]):
                    return
            else:
                for _, neighbours in groupby(pieces, key=lambda piece: piece.together):
                    self._run_neighbours(list(neighbours))
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  whatever it is, every caller is told
            self._roll_back()
            for piece in pieces:
                piece.result, piece.error = None, unavailable(error, self._path)
                piece.error.__cause__ = error

    def _run_alone(self, piece: _Piece) -> bool:
        """Without a savepoint: with nobody to share, the whole transaction can be undone."""
        try:
            (piece.result,) = piece.together(self._session, [piece.item])
        except Exception as error:
            if advice(error, self._path) is not None:
                raise
            self._connection.execute("ROLLBACK")
            piece.error = error
            return False
        return True

    def _run_neighbours(self, pieces: list[_Piece]) -> None:
        error = self._run_together(pieces)
        if error is None:
            return
        if len(pieces) == 1:
            pieces[0].error = error
            return
        for piece in pieces:
            piece.error = self._run_together([piece])

    def _run_together(self, pieces: list[_Piece]) -> Exception | None:
        self._connection.execute("SAVEPOINT piece")
        failure: Exception | None = None
        try:
            results = pieces[0].together(self._session, [piece.item for piece in pieces])
            for piece, result in zip(pieces, results, strict=True):
                piece.result = result
        except Exception as error:
            if advice(error, self._path) is not None:
                raise  # the file's trouble is everybody's: SQLite may have undone the whole transaction
            self._connection.execute("ROLLBACK TO piece")
            failure = error
        self._connection.execute("RELEASE piece")
        return failure

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # it was rolled back by SQLite itself, or the next BEGIN says what is wrong

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
        if any(piece.wakes and piece.error is None for piece in pieces):
            for wake in self.wakes:
                wake()
