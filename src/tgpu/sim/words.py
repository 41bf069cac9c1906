"""One short line per message, for the trace."""

from tgpu.protocol.messages import (
    Acknowledge,
    AttemptReport,
    Elsewhere,
    FromAgent,
    FromServer,
    Greeting,
    Heard,
    Heartbeat,
    Hello,
    Orders,
    Report,
)


def in_words(message: FromAgent | FromServer) -> str:
    match message:
        case Greeting(epoch=epoch, session=session):
            text = f"greeting of epoch {epoch}, session {session & 0xFFFFFFFF}"
        case Hello(attempts=attempts):
            text = f"hello with {_attempts(attempts)}"
        case Report(seq=seq, attempts=attempts):
            text = f"report {seq}: {_attempts(attempts)}"
        case Heartbeat(capacity=capacity):
            text = "heartbeat" if capacity is None else "heartbeat with another capacity"
        case Orders(launches=launches, stops=stops, forget=forget, go=go):
            launched, stopped = [launch.attempt for launch in launches], [stop.attempt for stop in stops]
            text = f"orders: launch {launched} stop {stopped} forget {list(forget)}"
            text += f" go {[each.attempt for each in go]}" if go else ""
        case Elsewhere(leader=leader):
            text = f"elsewhere: {leader or 'nobody leads'}"
        case Heard(sent=sent):
            text = f"that its heartbeat of {sent:.3f} was heard"
        case Acknowledge(seq=seq):
            text = f"acknowledgement of report {seq}"
        case _:
            text = type(message).__name__
    return text


def _attempts(reports: tuple[AttemptReport, ...]) -> str:
    return " ".join(f"{report.attempt}={report.phase}" for report in reports) or "nothing"
