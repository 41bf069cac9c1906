"""What is on disk of accounting: what attempts were given and used."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKeyConstraint, Index, Integer, Table, Text, text

from tgpu.store.table_metadata import metadata

# What attempts have in common that are counted together: few, so that a report need not sort the many.
usage_kinds = Table(
    "usage_kinds",
    metadata,
    Column("kind_id", Integer, primary_key=True, autoincrement=False),
    Column("user", Text, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("priority_class", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("gpu_type", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("is_told", Boolean, nullable=False),  # whether somebody can say what was used
    Column("is_gpu_told", Boolean, nullable=False),
    Index("usage_kinds_by_user", "user", "tenant_id", "priority_class"),
)

# One row per attempt that holds nothing any more, those of a kind together, in the order of their ends.
usage = Table(
    "usage",
    metadata,
    Column("kind_id", Integer, primary_key=True, autoincrement=False),
    Column("ended_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("task_index", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("node_id", Text, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("wait_ms", BigInteger, nullable=False),
    Column("cpu_milli", BigInteger, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("gpu_milli", BigInteger, nullable=False),
    Column("used_cpu_ms", BigInteger, nullable=False),  # these three are 0 where nobody can say
    Column("peak_memory_mib", BigInteger, nullable=False),
    Column("used_gpu_ms", BigInteger, nullable=False),
    Column("lost_ms", BigInteger, nullable=False),
    ForeignKeyConstraint(["kind_id"], ["usage_kinds.kind_id"]),
    Index("usage_by_attempt", "job_id", "task_index", "number", unique=True),
    # SQLite finds a stretch of time kind by kind, where the rows are kept: there this one is left empty, or
    # it would be used where it makes things slower. PostgreSQL keeps rows in no order.
    Index("usage_by_end", "ended_ms", sqlite_where=text("ended_ms < 0")),
    sqlite_with_rowid=False,
)
