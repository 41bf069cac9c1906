"""Columns by which jobs are searched and sorted: the command and the number of GPUs."""

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_BATCH = 5000
_COMMAND_LENGTH = 200


class _Request(msgspec.Struct):
    gpu_milli: int = 0


class _Group(msgspec.Struct):
    command: list[str] | str
    request: _Request
    tasks: int = 1


class _Spec(msgspec.Struct):
    groups: list[_Group]


def upgrade() -> None:
    op.add_column("jobs", sa.Column("command", sa.Text()))
    op.add_column("jobs", sa.Column("gpu_milli", sa.BigInteger()))
    _fill(op.get_bind())
    op.create_index("jobs_by_text", "jobs", ["job_id", "name", "user", "tenant_id", "command"])


def _fill(connection: sa.Connection) -> None:
    """Jobs that are there already, a batch at a time. A server of the previous version writes jobs without
    these columns: they are found by their names, and sorted as if they asked for no GPU."""
    decoder = msgspec.json.Decoder(_Spec)
    last = 0
    read = sa.text("SELECT job_id, spec FROM jobs WHERE job_id > :last ORDER BY job_id LIMIT :most")
    write = sa.text("UPDATE jobs SET command = :command, gpu_milli = :gpus WHERE job_id = :job")
    while rows := connection.execute(read, {"last": last, "most": _BATCH}).all():
        filled = []
        for job_id, text in rows:
            try:
                spec = decoder.decode(text)
            except msgspec.MsgspecError:
                continue  # unreadable jobs are reported when they are shown
            command = spec.groups[0].command
            line = command if isinstance(command, str) else " ".join(command)
            gpus = sum(group.request.gpu_milli * group.tasks for group in spec.groups)
            filled.append({"job": job_id, "command": line[:_COMMAND_LENGTH], "gpus": gpus})
        if filled:
            connection.execute(write, filled)
        last = rows[-1][0]
