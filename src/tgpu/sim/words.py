"""One short line per message, for the trace."""

from tgpu.protocol.messages import (
    Acknowledge,
    AttemptReport,
    FromAgent,
    FromServer,
    Greeting,
    Heartbeat,
    Hello,
    Orders,
    Report,
)


def in_words(message: FromAgent | FromServer) -> str:
    match message:
        case Greeting(epoch=epoch, session=session):
            return f"greeting of epoch {epoch}, session {session & 0xFFFFFFFF}"
        case Hello(attempts=attempts):
            return f"hello with {_attempts(attempts)}"
        case Report(seq=seq, attempts=attempts):
            return f"report {seq}: {_attempts(attempts)}"
        case Heartbeat(capacity=capacity):
            return "heartbeat" if capacity is None else "heartbeat with another capacity"
        case Orders(launches=launches, stops=stops, forget=forget):
            launched = [launch.attempt for launch in launches]
            return f"orders: launch {launched} stop {[stop.attempt for stop in stops]} forget {list(forget)}"
        case Acknowledge(seq=seq):
            return f"acknowledgement of report {seq}"
        case _:
            return type(message).__name__


def _attempts(reports: tuple[AttemptReport, ...]) -> str:
    return " ".join(f"{report.attempt}={report.phase}" for report in reports) or "nothing"
