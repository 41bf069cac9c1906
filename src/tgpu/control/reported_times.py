"""Times that a node reports of an attempt, none of them before its assignment.

They decide what users are charged. `clock_skew` takes care that none of them lies in the future.
"""

from dataclasses import replace

from msgspec import structs

from tgpu.control.clock_skew import WORTH_IT_MS
from tgpu.protocol.messages import AttemptReport


def since_assigned(report: AttemptReport, assigned_ms: int) -> AttemptReport:
    assigned_ms = max(0, assigned_ms - WORTH_IT_MS)  # so far apart clocks may be
    if report.started_ms is not None and report.started_ms < assigned_ms:
        report = structs.replace(report, started_ms=assigned_ms)
    how = report.exit
    if how is None:
        return report
    started_ms = None if how.started_ms is None else max(how.started_ms, assigned_ms)
    earliest_ms = assigned_ms if started_ms is None else started_ms
    ended_ms = max(how.ended_ms, earliest_ms) if how.ended_ms else 0  # 0: it is not known
    if (started_ms, ended_ms) == (how.started_ms, how.ended_ms):
        return report
    return structs.replace(report, exit=replace(how, started_ms=started_ms, ended_ms=ended_ms))
