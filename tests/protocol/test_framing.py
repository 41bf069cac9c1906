"""Messages survive however the stream cuts them, and nonsense is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.protocol.framing import MAX_FRAME, FramingError, encode, from_agents, from_server
from tgpu.protocol.messages import Acknowledge, AttemptReport, Greeting, Phase, Report

REPORT = Report(
    seq=3,
    attempts=(AttemptReport(attempt="1.0.1", phase=Phase.ENDED, exit=Exit(Cause.SIGNALLED, signal=9)),),
)


@given(st.lists(st.integers(1, 40), max_size=12))
def test_messages_come_out_whole_however_they_are_cut(cuts: list[int]) -> None:
    stream = encode(REPORT) * 3
    reader, out = from_agents(), []
    for size in [*cuts, len(stream)]:
        out += reader.feed(stream[:size])
        stream = stream[size:]
    assert out == [REPORT] * 3


def test_what_the_server_says_comes_out_as_it_went_in() -> None:
    said = [Greeting(protocol=1, cluster_id="c", epoch=2, session=3), Acknowledge(session=3, seq=4)]
    assert from_server().feed(b"".join(map(encode, said))) == said


@pytest.mark.parametrize(
    "data",
    [(MAX_FRAME + 1).to_bytes(4, "big"), b"\0\0\0\1\xc1", b"\0\0\0\1\x80", b"GET / HTTP/1.1\r\n\r\n"],
    ids=["too long", "not msgpack", "no message", "http"],
)
def test_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(FramingError):
        from_agents().feed(data)


def test_a_message_of_the_other_side_is_refused() -> None:
    with pytest.raises(FramingError):
        from_agents().feed(encode(Acknowledge(session=1, seq=1)))
