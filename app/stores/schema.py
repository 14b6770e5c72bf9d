"""The tables as this version has them; how older databases get there is in ``migrations``."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    func,
)

__all__ = ["COUNTED_COLUMNS", "counts", "feedback", "histograms", "metadata", "model_of", "records", "sums"]

metadata = MetaData()

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
    Index("sluice_records_end_reason", "end_reason", "created_at"),
    Index("sluice_records_key_label", "key_label", "created_at"),
    Index("sluice_records_status", "status", "created_at"),
)
"""``is_counted`` is null until the record is in the hourly tables, as in rows of an older version's writer."""

model_of = func.coalesce(records.c.served_model, records.c.requested_model)
"""The model that a record counts for: the one that answered, or the one asked for where none did."""

Index("sluice_records_model", model_of, records.c.created_at)
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


def _period() -> list[Column[int] | Column[str]]:
    """Give the columns that the tables below begin with: a day's or an hour's start, and a model, '' for none."""
    return [
        Column("span", Integer, primary_key=True, autoincrement=False),
        Column("start", BigInteger, primary_key=True, autoincrement=False),
        Column("model", Text, primary_key=True),
    ]


COUNTED_COLUMNS = ("requests", "retries", "stm_changed", "prompt_tokens", "completion_tokens", "total_tokens")

sums = Table(
    "sluice_sums",
    metadata,
    *_period(),
    *(Column(name, BigInteger, nullable=False) for name in COUNTED_COLUMNS),
    Column("cost", Double, nullable=False),
    sqlite_with_rowid=False,
)

counts = Table(
    "sluice_counts",
    metadata,
    *_period(),
    Column("kind", String(16), primary_key=True),
    Column("item", String(32), primary_key=True),
    Column("amount", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""How often each ``end_reason`` and each ``context`` came."""

histograms = Table(
    "sluice_histograms",
    metadata,
    *_period(),
    Column("kind", String(16), primary_key=True),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("amount", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""``first_chunk_ms`` and ``total_ms`` in buckets of ``histogram``."""
