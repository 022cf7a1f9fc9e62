"""What Alembic runs: the migrations, on the connection and in the transaction of `migrate`."""

from alembic import context

from pagegate.storage.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
