"""Which job waits for which other one: kept when both are over, for whoever looks back."""

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, Index, Table, Text

from tgpu.store.table_metadata import metadata

needs = Table(
    "needs",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("on_job_id", BigInteger, primary_key=True, autoincrement=False),  # 0 of a singleton
    Column("kind", Text, primary_key=True),
    ForeignKeyConstraint(["job_id"], ["jobs.job_id"]),
    Index("needs_by_other", "on_job_id", "job_id"),
    sqlite_with_rowid=False,
)
