"""One database, opened when it is first needed and again after it was away."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from ..errors import ConfigurationError
from .schema import migrate

__all__ = ["Store", "StoreError"]

T = TypeVar("T")

_BUSY_MS = 50
_BUSY_TRIES = 20
_BUSY_PAUSE = 0.05


class StoreError(Exception):
    """The database cannot be reached or does not do what it should; says how, without its address."""


class Store:
    """A database of records and feedback.

    Connections are opened for each use and closed after it: calls come from native threads of their own, which must
    not share them.

    Args:
        url: SQLAlchemy URL of a SQLite file or a PostgreSQL database.

    Raises:
        ConfigurationError: the URL is neither.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
        except ArgumentError:
            raise ConfigurationError("SLUICE_DATABASE_URL: expected sqlite:///file or postgresql://...") from None
        self.kind = parsed.get_backend_name()
        if self.kind == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        elif self.kind != "sqlite" or not parsed.database or parsed.database == ":memory:":
            raise ConfigurationError("SLUICE_DATABASE_URL: expected sqlite:///file or postgresql://...")
        self._folder = os.path.dirname(parsed.database or "") if self.kind == "sqlite" else ""
        self._engine = self._make_engine(str(parsed.render_as_string(hide_password=False)))
        self._is_migrated = False

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do *work* in one transaction of its own, again while SQLite is busy.

        Raises:
            StoreError: it cannot be done now.
        """
        for attempt in range(_BUSY_TRIES):
            try:
                self._migrate()
                with self._engine.begin() as connection:
                    return work(connection)
            except OperationalError as error:
                if attempt == _BUSY_TRIES - 1 or not _is_busy(error):
                    raise StoreError(_told(error)) from error
            except (SQLAlchemyError, OSError, RuntimeError) as error:
                raise StoreError(_told(error)) from error
            time.sleep(_BUSY_PAUSE)
        raise AssertionError("the loop returns or raises")

    def _migrate(self) -> None:
        if self._is_migrated:
            return
        if self._folder:
            os.makedirs(self._folder, exist_ok=True)
        with self._engine.begin() as connection:
            migrate(connection)
        self._is_migrated = True

    def _make_engine(self, url: str) -> Engine:
        if self.kind == "postgresql":
            return create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": 5})
        engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": _BUSY_MS / 1000})

        @event.listens_for(engine, "connect")
        def _(connection: object, _record: object) -> None:
            cursor = connection.cursor()  # type: ignore[attr-defined]
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=NORMAL")
            cursor.close()

        return engine


def _is_busy(error: OperationalError) -> bool:
    return "locked" in str(error.orig) or "busy" in str(error.orig)


def _told(error: Exception) -> str:
    # NOTE: the driver's own words can hold addresses, names and values; its class says enough.
    cause = getattr(error, "orig", None) or error
    return type(cause).__name__
