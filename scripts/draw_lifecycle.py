"""Draws docs/lifecycle.md from the tables in tgpu.domain.lifecycle."""

from pathlib import Path

from tgpu.domain.lifecycle import FINAL, TABLES, AttemptState, Cause, Move

TARGET = Path(__file__).parent.parent / "docs" / "lifecycle.md"
INTRODUCTION = """# Lifecycles

Drawn by `make docs` from the tables in `src/tgpu/domain/lifecycle.py`; a test fails when this page is stale.
A move that is not in a table cannot be committed.

"""
CAUSES = {
    Cause.EXITED: "it ended by itself; its exit code says how",
    Cause.SIGNALLED: "a signal that tgpu did not send killed it",
    Cause.OUT_OF_MEMORY: "it was killed for its use of memory",
    Cause.TIME_LIMIT: "it ran into its time limit",
    Cause.DISK_LIMIT: "its private `/tmp` or its user's checkpoints held more than they may"
    " ([operations.md](operations.md#budgets-for-users-data))",
    Cause.NODE_LOST: "its node lost it: tried again unless the job says otherwise",
    Cause.REBOOTED: "its machine restarted: tried again unless the job says otherwise",
    Cause.SUPERVISOR_LOST: "its supervisor was killed, or its node restarted within one boot, as containers "
    "do: tried again after a pause unless the job says otherwise",
    Cause.CANCELLED: "somebody cancelled it",
    Cause.COULD_NOT_START: "its program, directory or user could not be used",
    Cause.WAITED_TOO_LONG: "it could not be placed within `max_wait_s`",
    Cause.PREEMPTED: "it had to give way to a higher class: tried again unless the job says otherwise",
    Cause.SUPERSEDED: "its task goes on with another attempt, whose node was heard again",
    Cause.GANG_BROKEN: "another task of its gang failed, and it was stopped for that ([gangs.md](gangs.md))",
    Cause.GANG_RESTARTED: "another task of its gang was lost or did not get ready: all of them start anew",
    Cause.DEPENDENCY_FAILED: "a job that it waited for did not end as it had to"
    " ([dependencies.md](dependencies.md))",
    Cause.DEADLINE: "it was not over by its deadline, or could not be any more ([time.md](time.md))",
    Cause.SUSPENDED: "somebody suspended its job: it starts anew once that is resumed"
    " ([parallel.md](parallel.md))",
    Cause.RESTARTED: "somebody asked for it to start anew (`tgpu retry`)",
    Cause.JOB_FAILED: "its job failed as a whole, and it was stopped for that ([parallel.md](parallel.md))",
    Cause.JOB_DONE: "another task of its work queue has finished the work",
    Cause.MEMORY_PRESSURE: "its node ran short of memory: tried again unless the job says otherwise",
    Cause.DISK_PRESSURE: "its node ran short of disk space: tried again unless the job says otherwise",
    Cause.DEVICE_LOST: "its GPU failed: tried again unless the job or `on_gpu_failure` says otherwise",
}


def diagram(name: str, moves: tuple[Move, ...]) -> str:
    lines = [f"## {name.capitalize()}", "", "```mermaid", "stateDiagram-v2"]
    lines += [f"    {move.source or '[*]'} --> {move.target}: {move.happening}" for move in moves]
    ends = {move.target for move in moves} & {*FINAL, AttemptState.ENDED}
    lines += [f"    {end} --> [*]" for end in sorted(ends)]
    return "\n".join([*lines, "```", ""])


def page() -> str:
    diagrams = "\n".join(diagram(name, moves) for name, moves in TABLES.items())
    causes = "\n".join(f"| `{cause}` | {CAUSES[cause]} |" for cause in Cause)
    return f"{INTRODUCTION}{diagrams}\n## Why something ended\n\n| cause | meaning |\n|---|---|\n{causes}\n"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
