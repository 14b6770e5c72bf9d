"""The tables, and how a database of an older version becomes one of this version.

Each entry of ``MIGRATIONS`` takes a database from its index to the next version; entries are only ever added. They
run in one transaction each, one process at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    insert,
    inspect,
    select,
    text,
    update,
)

__all__ = ["MIGRATIONS", "feedback", "migrate", "records"]

_metadata = MetaData()

_version = Table("sluice_schema", _metadata, Column("version", Integer, nullable=False))

records = Table(
    "sluice_records",
    _metadata,
    Column("record_id", String(32), primary_key=True),
    Column("completion_id", String(64)),
    Column("generation_id", Text),
    Column("created_at", Double, nullable=False),
    Column("endpoint", String(64), nullable=False),
    Column("stream", Boolean, nullable=False),
    Column("requested_model", Text),
    Column("served_model", Text),
    Column("provider", Text),
    Column("key_label", Text),
    Column("request_id", String(128)),
    Column("status", Integer, nullable=False),
    Column("end_reason", String(32), nullable=False),
    Column("headers_ms", Double),
    Column("first_chunk_ms", Double),
    Column("total_ms", Double),
    Column("chunks", Integer, nullable=False),
    Column("characters", Integer, nullable=False),
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer),
    Column("total_tokens", Integer),
    Column("cost", Double),
    Column("is_estimate", Boolean, nullable=False),
    Column("context", String(32)),
    Column("error_code", Text),
    Column("error_type", Text),
    Column("params_used", JSON, nullable=False),
    Column("pipeline", JSON, nullable=False),
    Column("attempts", JSON, nullable=False),
    Index("sluice_records_created", "created_at"),
    Index("sluice_records_completion", "completion_id"),
)

feedback = Table(
    "sluice_feedback",
    _metadata,
    Column("message_id", String(128), primary_key=True),
    Column("key_label", Text),
    Column("created_at", Double, nullable=False),
    Column("context_type", String(32), nullable=False),
    Column("rating", Integer, nullable=False),
    Column("model", Text),
    Column("params", JSON, nullable=False),
    Index("sluice_feedback_order", "context_type", "rating", "created_at"),
)


def _create(connection: Connection) -> None:
    _metadata.create_all(connection, tables=[records, feedback])


MIGRATIONS: list[Callable[[Connection], None]] = [_create]


def migrate(connection: Connection) -> int:
    """Bring the database to this version, inside the caller's transaction; give the version it had.

    Raises:
        RuntimeError: the database is of a newer version than this program.
    """
    _lock(connection)
    if not inspect(connection).has_table(_version.name):
        _version.create(connection)
        connection.execute(insert(_version).values(version=0))
    found = connection.execute(select(_version.c.version)).scalar_one()
    if found > len(MIGRATIONS):
        raise RuntimeError(f"the database has schema {found}, this program knows {len(MIGRATIONS)}: update the program")
    for step in MIGRATIONS[found:]:
        step(connection)
    connection.execute(update(_version).values(version=len(MIGRATIONS)))
    return int(found)


def _lock(connection: Connection) -> None:
    """Let one process at a time migrate; ends with the transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(7221990)"))
    else:
        connection.execute(text("BEGIN IMMEDIATE"))
