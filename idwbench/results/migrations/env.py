"""Alembic's environment: runs revisions in the transaction of `idwbench.results.schema`."""

from __future__ import annotations

from alembic import context

from idwbench.results.tables import metadata

__all__: list[str] = []

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table="idwbench_version",  # two tools that share `alembic_version` in one database break each other
    transactional_ddl=True,  # the caller emits BEGIN, so that SQLite too rolls back a step that fails
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
