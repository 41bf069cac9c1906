"""Bounds of what an agent may say: checked once, where a message is decoded, for every message type.

Identifiers, numbers and shapes that are out of bounds make the message invalid. What a user can choose does
not: free text, which may quote a path or the name of a process, is shortened and stripped of control
characters, and the time of a checkpoint, which is that of the user's own file, is left out. So no user can
make the messages of an honest node invalid.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import fields, replace

from msgspec import structs

from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit
from tgpu.domain.log_times import most_times
from tgpu.domain.node import NODE_NAME, Capacity, Device, DeviceSigns, ForeignUse
from tgpu.domain.quantities import MAX_MIB, MAX_TIME_MS
from tgpu.domain.use import Use
from tgpu.protocol.gangs import Spot
from tgpu.protocol.messages import (
    LONGEST_SHORTAGE,
    AttemptReport,
    FromAgent,
    Heartbeat,
    Hello,
    ImageResolved,
    KnowsNewer,
    LogChunk,
    NodeUse,
    Report,
)
from tgpu.protocol.shells import STDERR, STDOUT, ShellOpened, ShellOutput, ShellOver, Taken
from tgpu.protocol.snapshots import WantSnapshot

MAX_COUNT = 2**53 - 1
"""The largest integer that every JSON reader keeps exact; a sum of many still fits 64 bits."""
MAX_EXIT_CODE = 2**31 - 1
MAX_SIGNAL = 128
MAX_PORT = 65_535
MAX_INDEX = 65_535
"""Of a device, its NUMA node, its NVLink island and its minor number."""
MAX_PERCENT = 1000
MAX_NAME = 256
MAX_LABEL = 1024
MAX_TEXT = 4096
MAX_KEY = 4096
MAX_LABELS = 1024
MAX_DEVICES = 1024
MAX_SESSIONS = 1024
MAX_ATTEMPTS = 100_000
"""Of one message: more than run on any node."""
MAX_FOREIGN = 64
"""Processes per device; further ones are left out."""
MOST_IN_WORDS = 60
_LEGIBLE = "\n\t"


class InvalidMessageError(ValueError):
    """A message that no correct agent sends; its text says what is wrong with it."""


def checked(message: FromAgent) -> FromAgent:
    """The message with its free text made legible. Raises InvalidMessageError."""
    match message:
        case Report():
            _within("seq", message.seq, MAX_COUNT)
            attempts, short = _attempts(message.attempts), message.disk_shortage
            short = None if short is None else _shortage(short)
            return structs.replace(message, attempts=attempts, disk_shortage=short)
        case Heartbeat():
            return _heartbeat(message)
        case Hello():
            return _hello(message)
        case KnowsNewer():
            _node_id(message.node_id)
            _word("key", message.key, MAX_KEY)
            _within("epoch", message.epoch, MAX_COUNT)
            return message
        case LogChunk() | ImageResolved() | WantSnapshot():
            return _about_a_request(message)
        case ShellOpened() | ShellOutput() | Taken() | ShellOver():
            return _shell(message)


def _about_a_request(message: LogChunk | ImageResolved | WantSnapshot) -> FromAgent:
    _within("request", message.request, MAX_COUNT)
    match message:
        case LogChunk():
            _within("offset", message.offset, MAX_COUNT)
            _log_times(message)
            return structs.replace(message, error=legible(message.error))
        case ImageResolved():
            _word("pinned", message.pinned, MAX_TEXT)
            _word("here", message.here, MAX_TEXT)
            return structs.replace(message, missing=legible(message.missing))
        case WantSnapshot():
            _within("offset", message.offset, MAX_COUNT)
            _word("user", message.user, MAX_NAME)
            _word("digest", message.digest, MAX_NAME)
            return message


def _log_times(chunk: LogChunk) -> None:
    """Each is of a byte of the data, by rising offset."""
    _at_most("times", chunk.times, most_times(len(chunk.data)))
    last = chunk.offset - 1
    for offset, us in chunk.times:
        if not last < offset < chunk.offset + len(chunk.data):
            raise InvalidMessageError(f"a time is of offset {offset}, behind {last}, of other output")
        _perhaps("a time", us, MAX_TIME_MS * 1000)
        last = offset


def legible(text: str, longest: int = MAX_TEXT) -> str:
    """Free text without control characters, of at most this length."""
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _LEGIBLE else "�" for char in text)


def _hello(hello: Hello) -> Hello:
    _node_id(hello.node_id)
    _within("protocol", hello.protocol, MAX_COUNT)
    _within("clock_ms", hello.clock_ms, MAX_TIME_MS)
    _word("boot_id", hello.boot_id, MAX_NAME)
    _word("version", hello.version, MAX_NAME)
    _word("pool", hello.pool, MAX_LABEL)
    _word("serves", hello.serves, MAX_NAME)
    _word("key", hello.key, MAX_KEY)
    _word("instance", hello.instance, MAX_NAME)
    _at_most("last_sessions", hello.last_sessions or (), MAX_SESSIONS)
    for session in hello.last_sessions or ():
        _within("a session", session, MAX_COUNT)
    _labels(hello.labels)
    _at_most("taints", hello.taints, MAX_LABELS)
    for taint in hello.taints:
        _word("a taint", taint, 2 * MAX_LABEL)
    capacity, short = _capacity(hello.capacity), _shortage(hello.disk_shortage)
    return structs.replace(hello, capacity=capacity, attempts=_attempts(hello.attempts), disk_shortage=short)


def _heartbeat(beat: Heartbeat) -> Heartbeat:
    if not math.isfinite(beat.sent):
        raise InvalidMessageError("sent is not a finite number")
    if beat.labels is not None:
        _labels(beat.labels)
    capacity = None if beat.capacity is None else _capacity(beat.capacity)
    use, short = _use_of_node(beat.use), _shortage(beat.disk_shortage)
    return structs.replace(beat, use=use, capacity=capacity, disk_shortage=short)


def _shortage(text: str) -> str:
    return legible(text, LONGEST_SHORTAGE)


def _use_of_node(use: NodeUse) -> NodeUse:
    _within("cpu_milli", use.cpu_milli, MAX_COUNT)
    _within("memory_mib", use.memory_mib, MAX_MIB)
    if len(use.gpu_percent) != len(use.gpu_memory_mib):
        raise InvalidMessageError(
            f"the use of {len(use.gpu_percent)} GPUs comes with the memory of {len(use.gpu_memory_mib)}"
        )
    if use.gpu_signs and len(use.gpu_signs) != len(use.gpu_percent):
        raise InvalidMessageError(
            f"the use of {len(use.gpu_percent)} GPUs comes with the signs of {len(use.gpu_signs)}"
        )
    _at_most("gpu_percent", use.gpu_percent, MAX_DEVICES)
    for percent in use.gpu_percent:
        _perhaps("gpu_percent", percent, MAX_PERCENT)
    for memory_mib in use.gpu_memory_mib:
        _perhaps("gpu_memory_mib", memory_mib, MAX_MIB)
    return structs.replace(use, gpu_signs=tuple(map(_signs, use.gpu_signs))) if use.gpu_signs else use


def _signs(signs: DeviceSigns) -> DeviceSigns:
    if signs.temperature_c is not None and abs(signs.temperature_c) > MAX_COUNT:
        raise InvalidMessageError(f"temperature_c is {signs.temperature_c}")
    _perhaps("power_w", signs.power_w, MAX_COUNT)
    _perhaps("ecc_uncorrected", signs.ecc_uncorrected, MAX_COUNT)
    _perhaps("ecc_uncorrected_ever", signs.ecc_uncorrected_ever, MAX_COUNT)
    return replace(signs, throttled=legible(signs.throttled, MAX_NAME))


def _capacity(capacity: Capacity) -> Capacity:
    """Amounts only have to be storable: the hub judges them, and tells the agent what is wrong."""
    for name in ("cpu_milli", "memory_mib", "disk_mib"):
        _storable(name, getattr(capacity, name))
    _at_most("generic", capacity.generic, MAX_LABELS)
    for name, amount in capacity.generic.items():
        _word("a generic resource", name, MAX_LABEL)
        _storable(name, amount)
    _at_most("devices", capacity.devices, MAX_DEVICES)
    return replace(capacity, devices=tuple(map(_device, capacity.devices)))


def _device(device: Device) -> Device:
    _within("the index of a device", device.index, MAX_INDEX)
    for name in ("numa_node", "island", "minor"):
        _perhaps(name, getattr(device, name), MAX_INDEX)
    _within("memory_mib of a device", device.memory_mib, MAX_MIB)
    _word("the UUID of a device", device.uuid, MAX_NAME)
    _word("the PCI address of a device", device.pci, MAX_NAME)
    return replace(
        device,
        model=legible(device.model, MAX_NAME),
        note=legible(device.note),
        foreign=tuple(map(_foreign, device.foreign[:MAX_FOREIGN])),
    )


def _foreign(use: ForeignUse) -> ForeignUse:
    _within("pid", use.pid, MAX_EXIT_CODE)
    _within("memory_mib of a process", use.memory_mib, MAX_MIB)
    return replace(use, user=legible(use.user, MAX_NAME), program=legible(use.program, MAX_NAME))


def _attempts(reports: tuple[AttemptReport, ...]) -> tuple[AttemptReport, ...]:
    _at_most("attempts", reports, MAX_ATTEMPTS)
    if len({report.attempt for report in reports}) < len(reports):
        raise InvalidMessageError("an attempt is reported twice")
    return tuple(map(_attempt, reports))


def _attempt(report: AttemptReport) -> AttemptReport:
    try:
        AttemptId.parse(report.attempt)
    except ValueError as error:
        raise InvalidMessageError(legible(str(error), MAX_NAME)) from None
    _perhaps("started_ms", report.started_ms, MAX_TIME_MS)
    for spot in (report.spot, report.master):
        if spot is not None:
            _spot(spot)
    saved_ms = _saved_ms(report.checkpoint_ms)
    if not report.note and report.exit is None and saved_ms == report.checkpoint_ms:
        return report
    how = None if report.exit is None else _exit(report.exit)
    return structs.replace(report, note=legible(report.note), exit=how, checkpoint_ms=saved_ms)


def _saved_ms(at_ms: int | None) -> int | None:
    """The user's file has whatever time its user gave it."""
    return at_ms if at_ms is not None and 0 <= at_ms <= MAX_TIME_MS else None


def _spot(spot: Spot) -> None:
    _word("an address", spot.address, MAX_NAME)
    _within("a port", spot.port, MAX_PORT)


def _exit(how: Exit) -> Exit:
    if how.exit_code is not None and abs(how.exit_code) > MAX_EXIT_CODE:
        raise InvalidMessageError(f"exit_code is {how.exit_code}")
    _perhaps("signal", how.signal, MAX_SIGNAL)
    _within("ended_ms", how.ended_ms, MAX_TIME_MS)
    _perhaps("started_ms", how.started_ms, MAX_TIME_MS)
    _within("cpu_ms", how.cpu_ms, MAX_COUNT)
    _perhaps("gpu_ms", how.gpu_ms, MAX_COUNT)
    _within("peak_memory_mib", how.peak_memory_mib, MAX_MIB)
    _perhaps("memory_limit_mib", how.memory_limit_mib, MAX_MIB)
    if how.use is not None:
        _use(how.use)
    saved_ms = _saved_ms(how.checkpoint_ms)
    return replace(how, detail=legible(how.detail), kept_tmp=legible(how.kept_tmp), checkpoint_ms=saved_ms)


def _use(use: Use) -> None:
    for name in _USE_FIELDS:
        _perhaps(name, getattr(use, name), MAX_COUNT)


_USE_FIELDS = tuple(field.name for field in fields(Use))


def _shell(message: ShellOpened | ShellOutput | Taken | ShellOver) -> FromAgent:
    _within("shell", message.shell, MAX_COUNT)
    match message:
        case ShellOutput() if message.stream not in (STDOUT, STDERR):
            raise InvalidMessageError(f"stream is {message.stream}")
        case Taken():
            _within("count", message.count, MAX_COUNT)
        case ShellOver():
            _perhaps("exit_code", message.exit_code, MAX_EXIT_CODE)
            return structs.replace(message, detail=legible(message.detail))
    return message


def _labels(labels: Mapping[str, str]) -> None:
    _at_most("labels", labels, MAX_LABELS)
    for name, text in labels.items():
        _word("a label", name, MAX_LABEL)
        _word("the value of a label", text, MAX_LABEL)


def _node_id(name: str) -> None:
    if not NODE_NAME.fullmatch(name):
        raise InvalidMessageError(
            "a node's name is 1 to 253 letters, digits, dots, dashes and underscores, and begins with a "
            "letter or a digit"
        )


def _word(name: str, text: str, longest: int) -> None:
    if len(text) > longest:
        raise InvalidMessageError(f"{name} has {len(text)} characters; at most {longest} are allowed")
    if not text.isprintable():
        raise InvalidMessageError(f"{name} has control characters: {text[:MOST_IN_WORDS]!r}")


def _at_most(name: str, things: Collection[object], most: int) -> None:
    if len(things) > most:
        raise InvalidMessageError(f"{name} has {len(things)} entries; at most {most} are allowed")


def _within(name: str, number: int, most: int) -> None:
    if not 0 <= number <= most:
        raise InvalidMessageError(f"{name} is {number}; it must be from 0 to {most}")


def _perhaps(name: str, number: int | None, most: int) -> None:
    if number is not None:
        _within(name, number, most)


def _storable(name: str, number: int) -> None:
    if abs(number) > MAX_COUNT:
        raise InvalidMessageError(f"{name} is {number}")
