"""What Alembic runs: the migrations, on the connection it was handed."""

from alembic import context

from tgpu.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # SQLite can, whatever Alembic assumes: a migration happens whole or not at all
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
