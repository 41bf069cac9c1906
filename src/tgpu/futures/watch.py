"""Follows the events of the caller's jobs, and tells Futures how their tasks ended."""

import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from tgpu.client import Client, TgpuError
from tgpu.client.errors import ReadTimeoutError
from tgpu.client.events import EventStream
from tgpu.client.waiting import is_passing
from tgpu.futures.errand import Errand
from tgpu.futures.future import Future

_TICK_S = 0.5
_FIRST_QUIET_S = 1.0
_LONGEST_QUIET_S = 15.0
_FIRST_BACKOFF_S = 0.1
_LONGEST_BACKOFF_S = 3.0
_DRAIN_S = 0.001
_MOST_EVENTS = 5000
_LAST_LINES = 20
_PAGE = 500
_NOT_FOUND = 404
_BEGUN = "running,completed,failed,cancelled"


class Watch:
    """A thread that lives while something is under way. A lost event costs time only: after some silence,
    and after every reconnection, it looks at everything."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect
        self._errands: dict[int, Errand] = {}
        self._thread: threading.Thread | None = None
        self.submitting = threading.RLock()
        """Held from before a job is submitted until it is added: so no event of it is met unprepared."""

    def add(self, errand: Errand) -> None:
        """With `submitting` held."""
        self._errands[errand.job_id] = errand
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tgpu-executor", daemon=True)
            self._thread.start()

    def futures(self) -> list[Future[Any]]:
        with self.submitting:
            errands = list(self._errands.values())
        return [future for errand in errands for future in list(errand.live.values())]

    def join(self) -> None:
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        backoff_s = _FIRST_BACKOFF_S
        with self._connect() as client:
            while not self._is_finished():
                try:
                    with EventStream(client.session, mine=True) as stream:
                        _look(client, self._live())
                        backoff_s = _FIRST_BACKOFF_S
                        self._follow(client, stream)
                except Exception as error:  # noqa: BLE001  whatever it is, those who wait must hear of it
                    if not (isinstance(error, TgpuError) and is_passing(error)):
                        self._give_up(error)
                    time.sleep(backoff_s)
                    backoff_s = min(backoff_s * 2, _LONGEST_BACKOFF_S)

    def _follow(self, client: Client, stream: EventStream) -> None:
        quiet_s, last_look = _FIRST_QUIET_S, time.monotonic()
        while live := self._live():
            news = _gathered(stream)
            with self.submitting:
                concerned = [self._errands[job_id] for job_id in news if job_id in self._errands]
            concerned += [errand for errand in live if errand.waits_for_files]
            if not concerned and time.monotonic() - last_look >= quiet_s:
                concerned, quiet_s = live, min(quiet_s * 2, _LONGEST_QUIET_S)
            if concerned:
                last_look = time.monotonic()
                _look(client, concerned)
                # Who looks at very many tasks does it seldom.
                time.sleep(min(2.0, 3 * (time.monotonic() - last_look)))

    def _live(self) -> list[Errand]:
        """What somebody still waits for; the rest is put away."""
        with self.submitting:
            for job_id, errand in list(self._errands.items()):
                if errand.is_over:
                    errand.tidy()
                    del self._errands[job_id]
            return list(self._errands.values())

    def _is_finished(self) -> bool:
        """Then the next errand starts another thread."""
        with self.submitting:
            if self._live():
                return False
            self._thread = None
            return True

    def _give_up(self, error: Exception) -> None:
        with self.submitting:
            errands = list(self._errands.values())
        for errand in errands:
            errand.fail(error)


_FORGOTTEN = {"status": "failed", "reason": "tgpu does not remember its job any more", "attempt_count": 0}


def _look(client: Client, errands: Collection[Errand]) -> None:
    alone = {errand.job_id: errand for errand in errands if not errand.is_array}
    ids = list(alone)
    for start in range(0, len(ids), _PAGE):
        some = ids[start : start + _PAGE]
        found = {job["job_id"]: job for job in client.jobs(ids=",".join(map(str, some)))}
        for job_id in some:
            alone[job_id].hear(0, found.get(job_id, _FORGOTTEN), partial(_last_words, client))
    for errand in {errand.job_id: errand for errand in errands if errand.is_array}.values():
        if errand.live:
            _look_at_array(client, errand)


def _look_at_array(client: Client, errand: Errand) -> None:
    """From the first task on that somebody waits for."""
    after = errand.first_live - 1 if errand.first_live else None
    last_words = partial(_last_words, client)
    try:
        for task in client.tasks(errand.job_id, after=after, status=_BEGUN):
            errand.hear(task["task_index"], task, last_words)
    except TgpuError as error:
        if error.status != _NOT_FOUND:
            raise
        for index in list(errand.live):
            errand.hear(index, _FORGOTTEN, last_words)


def _last_words(client: Client, future: Future[Any]) -> str:
    """What it wrote to stderr, the end of it."""
    try:
        pieces = client.logs(future.job_id, stream="stderr", tail=_LAST_LINES, task=future.index or 0)
        return b"".join(pieces).decode("utf-8", "replace").strip()
    except TgpuError:
        return ""  # its node may be gone, too


def _gathered(stream: EventStream) -> set[int]:
    """The jobs of the events that have come; waits a moment if there are none."""
    news: set[int] = set()
    patience_s = _TICK_S
    for _ in range(_MOST_EVENTS):
        try:
            event = stream.next(patience_s)
        except ReadTimeoutError:
            break
        news.add(event.get("job_id", 0))
        patience_s = _DRAIN_S
    return news
