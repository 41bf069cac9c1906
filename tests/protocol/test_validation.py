"""Bounds of what an agent may say: hostile values are refused where messages are decoded."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.node import Capacity, Device, DeviceSigns, ForeignUse
from tgpu.domain.use import Use
from tgpu.protocol.framing import FramingError, encode, from_agents
from tgpu.protocol.gangs import Spot
from tgpu.protocol.messages import (
    PROTOCOL,
    AttemptReport,
    FromAgent,
    Heartbeat,
    Hello,
    ImageResolved,
    KnowsNewer,
    LogChunk,
    NodeUse,
    Phase,
    Report,
)
from tgpu.protocol.shells import ShellOpened, ShellOutput, ShellOver, Taken
from tgpu.protocol.snapshots import WantSnapshot
from tgpu.protocol.use import UseFile, packed, unpacked
from tgpu.protocol.validation import InvalidMessageError, checked, legible

ENDED = AttemptReport(
    attempt="1.0.1",
    phase=Phase.ENDED,
    started_ms=1000,
    exit=Exit(Cause.EXITED, exit_code=0, started_ms=1000, ended_ms=2000, use=Use(measured_s=1)),
    spot=Spot(address="10.0.0.1", port=29500),
)
HAS = Capacity(
    8000,
    1024,
    1000,
    (Device(0, "GPU-0", "NVIDIA A100", 81920, foreign=(ForeignUse(7, "bob", "python", 5),)),),
)
HELLO = Hello(
    protocol=PROTOCOL,
    node_id="n1",
    boot_id="b",
    version="1",
    capacity=HAS,
    pool="default",
    labels={"zone": "a"},
    serves="*",
    attempts=(ENDED,),
    taints=("spot",),
)
USE = NodeUse(cpu_milli=1, memory_mib=1, gpu_percent=(1,), gpu_memory_mib=(1,), gpu_signs=(DeviceSigns(),))
VALID: tuple[FromAgent, ...] = (
    HELLO,
    KnowsNewer(node_id="n1", epoch=3),
    Heartbeat(use=USE, sent=1.5, capacity=HAS, labels={"zone": "a"}),
    Report(seq=1, attempts=(ENDED,)),
    LogChunk(request=1, offset=0, data=b"x", at_end=True),
    LogChunk(request=1, offset=5, data=b"x" * 9, at_end=True, times=((5, 0), (7, None), (13, 2**50))),
    ImageResolved(request=1, pinned="a@sha256:1", here="sha256:1"),
    WantSnapshot(request=1, user="ada", digest="d", offset=0),
    ShellOpened(shell=1),
    ShellOutput(shell=1, data=b"x"),
    Taken(shell=1, count=3),
    ShellOver(shell=1, exit_code=0),
)
_HOSTILE_NUMBERS = (-1, -(2**63), 2**63 - 1, 2**64 - 1)
_HOSTILE_TEXTS = ("\0", "a\x1b[2J", "x" * 100_000, "9" * 5000, "", "-1", "٣.٣.٣", "../../etc", "1.0.1 ")


def _paths(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where each leaf of a message's plain form is."""
    if isinstance(value, dict):
        return [at for key, part in value.items() if key != "type" for at in _paths(part, (*path, key))]
    if isinstance(value, list):
        return [at for place, part in enumerate(value) for at in _paths(part, (*path, place))]
    return [path]


def _with(value: Any, path: tuple[Any, ...], leaf: object) -> Any:
    if not path:
        return leaf
    copy = value.copy()
    copy[path[0]] = _with(value[path[0]], path[1:], leaf)
    return copy


def _frame(plain: object) -> bytes:
    body = msgspec.msgpack.encode(plain)
    return len(body).to_bytes(4, "big") + body


@st.composite
def _hostile(draw: st.DrawFn) -> bytes:
    """A valid message with one leaf replaced by a hostile value."""
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode(draw(st.sampled_from(VALID))))
    path = draw(st.sampled_from(_paths(plain)))
    leaf: Any = st.sampled_from(
        (*_HOSTILE_NUMBERS, *_HOSTILE_TEXTS, math.nan, math.inf, None, True, b"\xff", [])
    )
    return _frame(_with(plain, path, draw(leaf)))


def hostile_frames() -> st.SearchStrategy[bytes]:
    """Frames with hostile values, cut short or garbled."""
    cut = st.builds(lambda frame, at: frame[: at % len(frame)], _hostile(), st.integers(0, 10_000))
    garbled = st.builds(
        lambda frame, at, byte: frame[: at % len(frame)] + bytes([byte]) + frame[at % len(frame) + 1 :],
        _hostile(),
        st.integers(4, 10_000),
        st.integers(0, 255),
    )
    return st.one_of(_hostile(), cut, garbled)


@pytest.mark.parametrize("message", VALID, ids=lambda message: type(message).__name__)
def test_valid_message_passes_unchanged(message: FromAgent) -> None:
    assert from_agents().feed(encode(message)) == [message]


def test_every_message_type_of_agents_is_fuzzed() -> None:
    assert {type(message) for message in VALID} == set(FromAgent.__args__)


@settings(max_examples=200, deadline=None)
@given(hostile_frames())
def test_hostile_frames_are_refused_or_made_harmless(frame: bytes) -> None:
    try:
        messages = from_agents().feed(frame)
    except FramingError:
        return
    for message in messages:
        assert checked(message) == message, "what was let in is within the bounds"


@pytest.mark.parametrize(
    "attempt",
    ["", "1", "1.0", "1.0.1.1", "a.b.c", "-1.0.1", "1.0.0", "0.0.1", "01.0.1", "1.00.1", "1.0.1\n",
     "9007199254740992.0.1", "1.2147483648.1", "1.0.2147483648", "9" * 5000 + ".0.1", "\u0663.0.1"],
)  # fmt: skip
def test_malformed_attempt_id_is_refused(attempt: str) -> None:
    report = Report(seq=1, attempts=(AttemptReport(attempt=attempt, phase=Phase.RUNNING),))
    with pytest.raises(FramingError, match="not an attempt id"):
        from_agents().feed(encode(report))


@pytest.mark.parametrize("sessions", [(-1,), (2**60,), tuple(range(2000))], ids=["negative", "huge", "many"])
def test_record_of_sessions_out_of_bounds_is_refused(sessions: tuple[int, ...]) -> None:
    with pytest.raises(InvalidMessageError, match="session"):
        checked(structs.replace(HELLO, last_sessions=sessions))


def test_attempt_reported_twice_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="an attempt is reported twice"):
        checked(Report(seq=1, attempts=(ENDED, ENDED)))


def test_heartbeat_whose_columns_differ_in_length_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="the use of 3 GPUs comes with the memory of 1"):
        checked(Heartbeat(use=NodeUse(gpu_percent=(1, 2, 3), gpu_memory_mib=(1,))))


def test_free_text_is_made_legible_and_not_refused() -> None:
    how = Exit(
        Cause.COULD_NOT_START, detail="cannot enter '/tmp/\0\x1b[2J': no such directory\n" + "x" * 5000
    )
    said = checked(Report(seq=1, attempts=(AttemptReport(attempt="1.0.1", phase=Phase.ENDED, exit=how),)))
    assert isinstance(said, Report)
    assert said.attempts[0].exit is not None
    detail = said.attempts[0].exit.detail
    assert detail.startswith("cannot enter '/tmp/��[2J': no such directory\nxxx")
    assert len(detail) == 4096
    assert legible("plain text") == "plain text"


@pytest.mark.parametrize(
    "body",
    [b"\x83\xa4type\xa6report\xa3seq\x01\xa8attempts\x91\x82\xa7attempt\xa2\xff\xfe\xa5phase\xa5ended",
     b"\x84\xa4type\xa6report\xa3seq\x01\xa8attempts\x90\xa1x" + b"\x91" * 100_000 + b"\x90",
     b"\x83\xa4type\xa6report\xa3seq\x01\xa8attempts\xdd\xff\xff\xff\xff"],
    ids=["not utf-8", "too deep", "too many entries"],
)  # fmt: skip
def test_frame_that_cannot_be_decoded_is_refused(body: bytes) -> None:
    with pytest.raises(FramingError):
        from_agents().feed(len(body).to_bytes(4, "big") + body)


@pytest.mark.parametrize(
    "wrong", [{"started_ms": 2**62}, {"measured_ms": -(2**62)}, {"step_s": math.nan}, {"cpu_us": -1}], ids=str
)
def test_use_with_numbers_that_cannot_be_is_not_read(wrong: dict[str, Any]) -> None:
    facts: dict[str, Any] = {"attempt": "1.0.1", "started_ms": 1, "step_s": 5.0, "columns": {}}
    assert unpacked(packed(UseFile(**facts))) is not None
    assert unpacked(packed(UseFile(**(facts | wrong)))) is None


@pytest.mark.parametrize("at_ms", [-631_152_000_000, 2**60])
def test_checkpoint_time_that_a_user_made_up_is_left_out_of_a_valid_report(at_ms: int) -> None:
    running = AttemptReport(attempt="1.0.1", phase=Phase.RUNNING, started_ms=1000, checkpoint_ms=at_ms)
    how = Exit(Cause.EXITED, exit_code=0, ended_ms=2000, checkpoint_ms=at_ms)
    ended = AttemptReport(attempt="1.0.2", phase=Phase.ENDED, exit=how)
    [report] = from_agents().feed(encode(Report(seq=1, attempts=(running, ended))))
    assert isinstance(report, Report)
    first, second = report.attempts
    assert first.checkpoint_ms is None
    assert second.exit is not None
    assert second.exit.checkpoint_ms is None


@pytest.mark.parametrize(
    "times",
    [
        ((4, 1),),
        ((15, 1),),
        ((7, 1), (6, 2)),
        ((7, 1), (7, 2)),
        ((7, -1),),
        ((7, 2**62),),
        ((-(2**63), 1),),
        tuple((5, 1) for _ in range(100_000)),
    ],
)
def test_times_of_output_that_was_not_sent_are_invalid(times: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(InvalidMessageError):
        checked(LogChunk(request=1, offset=5, data=b"x" * 10, at_end=True, times=times))


def test_more_times_than_output_can_have_are_invalid() -> None:
    times = tuple((at, 1) for at in range(65))
    with pytest.raises(InvalidMessageError, match="times has 65 entries; at most 64"):
        checked(LogChunk(request=1, offset=0, data=b"x" * 65, at_end=True, times=times))
