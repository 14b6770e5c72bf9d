"""The tables as this version has them; how older databases get there is in ``migrations``."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
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
)
from sqlalchemy.dialects import postgresql, sqlite

__all__ = ["COUNTED", "feedback", "insert_into", "metadata", "model_of", "periods", "records"]

metadata = MetaData()

_MODEL = ("served_model", "requested_model")

records = Table(
    "sluice_records",
    metadata,
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
    Column("error_message", Text),
    Column("reasoning_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("is_byok", Boolean),
    Column("upstream_cost", Double),
    Column("is_counted", Boolean),
    Index("sluice_records_created", "created_at"),
    Index("sluice_records_completion", "completion_id"),
    Index("sluice_records_end_reason", "end_reason", "created_at", "status", "key_label", *_MODEL),
    Index("sluice_records_key_label", "key_label", "created_at", "status", "end_reason", *_MODEL),
    Index("sluice_records_status", "status", "created_at", "end_reason", "key_label", *_MODEL),
)
"""``is_counted`` is null until the record is in the hourly tables, as in rows of an older version's writer."""

model_of = func.coalesce(records.c.served_model, records.c.requested_model)
"""The model that a record counts for: the one that answered, or the one asked for where none did."""

# Each index of a filter holds what the other filters ask for, so that only rows that match them all are looked up.
Index(
    "sluice_records_model", model_of, *(records.c[name] for name in ("created_at", "status", "end_reason", "key_label"))
)
_uncounted = records.c.is_counted.is_(None)
Index("sluice_records_uncounted", records.c.record_id, sqlite_where=_uncounted, postgresql_where=_uncounted)

feedback = Table(
    "sluice_feedback",
    metadata,
    Column("message_id", String(128), primary_key=True),
    Column("key_label", Text),
    Column("created_at", Double, nullable=False),
    Column("context_type", String(32), nullable=False),
    Column("rating", Integer, nullable=False),
    Column("model", Text),
    Column("params", JSON, nullable=False),
    Index("sluice_feedback_order", "context_type", "rating", "created_at"),
)


COUNTED = ("requests", "retries", "stm_changed", "prompt_tokens", "completion_tokens", "total_tokens")

periods = Table(
    "sluice_periods",
    metadata,
    Column("span", Integer, primary_key=True, autoincrement=False),
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("model", Text, primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in COUNTED),
    Column("cost", Double, nullable=False),
    Column("tallies", JSON, nullable=False),
    sqlite_with_rowid=False,
)
"""Figures of one model ('' for none) in an hour or a day: ``span`` is its length, ``start`` its beginning in Unix
seconds, ``tallies`` counts ``end_reason`` and ``context`` by their words, ``first_chunk_ms`` and ``total_ms`` by their
buckets in ``histogram``."""


def insert_into(connection: Connection, table: Table) -> Any:
    """Give *table*'s ``INSERT`` with what both databases, each in a dialect of its own, do at a conflict."""
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)
