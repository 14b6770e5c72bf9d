"""How a database of an older version becomes one of this version.

Each entry of ``MIGRATIONS`` takes a database from its index to the next version; entries are only ever added, and what
a released one makes never changes: before a table changes in ``schema``, its old form moves here. They run in one
transaction, one process at a time, and are quick whatever the number of records: work on the rows is left to the
background writer.
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
    func,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.schema import CreateColumn

from .schema import feedback, periods, records

__all__ = ["MIGRATIONS", "migrate"]

_version = Table("sluice_schema", MetaData(), Column("version", Integer, nullable=False))

_records_1 = Table(
    "sluice_records",
    MetaData(),
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


def _to_1(connection: Connection) -> None:
    """Records and feedback."""
    _records_1.create(connection)
    feedback.create(connection)


def _to_2(connection: Connection) -> None:
    """Add what statistics are made of, further figures of usage, our words for an error, and an index a filter."""
    for name in ("key_label", "served_model", "requested_model"):  # PostgreSQL indexes no long ones
        column = records.c[name]
        connection.execute(update(records).where(func.length(column) > 200).values({name: func.substr(column, 1, 200)}))
    added = ("error_message", "reasoning_tokens", "cached_tokens", "is_byok", "upstream_cost", "is_counted")
    for name in added:
        column_ddl = CreateColumn(records.c[name]).compile(dialect=connection.dialect)
        connection.execute(text(f"ALTER TABLE sluice_records ADD COLUMN {column_ddl}"))
    filters = ("end_reason", "key_label", "status", "model", "uncounted")
    for index in records.indexes:
        if index.name in {f"sluice_records_{name}" for name in filters}:
            index.create(connection)
    periods.create(connection)


MIGRATIONS: list[Callable[[Connection], None]] = [_to_1, _to_2]


def migrate(connection: Connection) -> int:
    """Bring the database to this version, inside the caller's transaction; give the version it had.

    Raises:
        RuntimeError: the database is of a newer version than this program.
    """
    if connection.dialect.name == "postgresql":  # one process at a time; on SQLite any writing transaction is alone
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(7221990)"))
    if not inspect(connection).has_table(_version.name):
        _version.create(connection)
        connection.execute(insert(_version).values(version=0))
    found = int(connection.execute(select(_version.c.version)).scalar_one())
    if found > len(MIGRATIONS):
        raise RuntimeError(f"the database has schema {found}, this program knows {len(MIGRATIONS)}: update the program")
    for step in MIGRATIONS[found:]:
        step(connection)
    if found < len(MIGRATIONS):
        connection.execute(update(_version).values(version=len(MIGRATIONS)))
    return found
