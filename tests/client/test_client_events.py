"""The feed of events, read by somebody who has only so much time."""

import time
from typing import Any

import pytest

from tgpu.client.errors import ReadTimeoutError
from tgpu.client.events import EventStream

EVERY_S = 0.05


class QuietFeed:
    """A session, its connection and the answer in one: nothing but heartbeats comes."""

    def __init__(self) -> None:
        self.timeout, self.heard = 0.0, 0

    def stream(self, *_: object) -> Any:
        return self, self

    def set_timeout(self, seconds: float) -> None:
        self.timeout = seconds

    def read_some(self) -> bytes:
        time.sleep(min(self.timeout, EVERY_S))
        if self.timeout < EVERY_S:
            raise ReadTimeoutError("nothing came")
        self.heard += 1
        assert self.heard < 100, "it would go on for ever"
        return b": heartbeat\n\n"


def test_heartbeats_do_not_prolong_the_time_that_is_given() -> None:
    feed: Any = QuietFeed()
    with pytest.raises(ReadTimeoutError):
        EventStream(feed).next(4.5 * EVERY_S)
    assert feed.heard <= 4
