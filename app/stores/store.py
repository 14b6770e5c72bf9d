"""One database, opened when it is first needed and again after it was away."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    ProgrammingError,
    SQLAlchemyError,
    StatementError,
)
from sqlalchemy.pool import NullPool

from .. import wire
from ..errors import ConfigurationError
from ..offload import offload
from .migrations import migrate
from .rows import Json

__all__ = ["Store", "StoreError", "ValueRefused"]

log = logging.getLogger("sluice")

T = TypeVar("T")
Work = Callable[[Connection], T]

_BUSY_MS = 50
_BUSY_SECONDS = 2.0
_BUSY_PAUSE = 0.05
_IDLE = 2
"""Connections kept for the next use."""
_POSTGRESQL: dict[str, Any] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 30,
    "application_name": "sluice",
    "prepare_threshold": None,  # a pooler between us and the server may give each transaction another connection
}
_LIMITS = "SET lock_timeout = '5s'; SET statement_timeout = '30s'"
_KNOWN = (
    "database or disk is full",
    "unable to open database file",
    "attempt to write a readonly database",
    "database disk image is malformed",
    "file is not a database",
    "disk I/O error",
    "password authentication failed",
    "no password supplied",
    "Connection refused",
    "Name or service not known",
    "connection timeout expired",
    "too many clients already",
    "the database system is starting up",
    "the database system is shutting down",
    "terminating connection due to administrator command",
    "server closed the connection unexpectedly",
    "No such file or directory",
    "does not exist",
    "permission denied",
    "certificate verify failed",
)
"""What drivers say that holds no address, name or value of ours."""


class StoreError(Exception):
    """The database cannot be reached or does not do what it should; says how, without its address."""


class ValueRefused(Exception):
    """The database is there and does not take a value it was given; says how, without the value."""


class _Busy(StoreError):
    """Another process holds the database's lock."""


class _Lost(StoreError):
    """A connection that was kept is none any more."""


class _Kept(NamedTuple):
    connection: Connection
    pid: int
    file: Any


class Store:
    """A database of records and feedback.

    ``read`` and ``write`` may be called from anywhere: the work itself is done where it blocks no stream.

    Args:
        url: SQLAlchemy URL of a SQLite file or a PostgreSQL database.

    Raises:
        ConfigurationError: the URL is neither.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError):  # the second for a port that is none
            raise ConfigurationError("SLUICE_DATABASE_URL: expected sqlite:///file or postgresql://...") from None
        if parsed.drivername == "postgres":  # as some platforms still spell it
            parsed = parsed.set(drivername="postgresql")
        self.kind = parsed.get_backend_name()
        is_file = self.kind == "sqlite" and parsed.database not in (None, "", ":memory:")
        if self.kind != "postgresql" and not is_file:
            raise ConfigurationError("SLUICE_DATABASE_URL: expected sqlite:///file or postgresql://...")
        self._file = str(parsed.database) if is_file else ""
        self._engine = _make_engine(parsed, self.kind)
        self._idle: deque[_Kept] = deque()
        self._is_migrated = False

    def read(self, work: Work[T]) -> T:
        """Do *work*, which only reads, in one transaction of its own; again while SQLite is busy.

        Raises:
            StoreError: it cannot be done now.
        """
        return self._patiently(False, work)

    def write(self, work: Work[T]) -> T:
        """Do *work* in one transaction of its own; again while SQLite is busy.

        Raises:
            StoreError: it cannot be done now. It may have been done all the same: the answer can be what was lost.
            ValueRefused: it never can.
        """
        return self._patiently(True, work)

    def close(self) -> None:
        """Close the connections that are kept."""
        while self._idle:
            kept = self._idle.pop()
            if kept.pid == os.getpid():
                offload(_close, kept.connection)

    def _patiently(self, writes: bool, work: Work[T]) -> T:
        end = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                return offload(self._once, writes, work)
            except _Busy:
                if time.monotonic() > end:
                    raise
                time.sleep(_BUSY_PAUSE)  # here, where it yields to the streams
            except _Lost:
                continue  # the others that were kept are gone too, and then a new one is made

    def _once(self, writes: bool, work: Work[T]) -> T:
        is_new = False
        try:
            self._migrate()
            kept = self._kept()
            is_new = kept is None
            connection = kept.connection if kept is not None else self._engine.connect()
        except (SQLAlchemyError, OSError, RuntimeError) as error:
            raise self._translated(error) from error
        try:
            found = _transact(connection, writes, work)
        except (SQLAlchemyError, OSError) as error:
            is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
            _close(connection)
            if is_lost and not is_new:
                raise _Lost(_told(error)) from error
            raise self._translated(error) from error
        except BaseException:
            _close(connection)
            raise
        self._keep(connection)
        return found

    def _migrate(self) -> None:
        if self._is_migrated:
            return
        if self._file:
            os.makedirs(os.path.dirname(self._file) or ".", exist_ok=True)
        connection = self._engine.connect()
        try:
            before = _transact(connection, True, migrate)
        finally:
            _close(connection)
        self._is_migrated = True
        if before:
            log.info("the record's database had schema %d and is up to date now", before)

    def _kept(self) -> _Kept | None:
        """Take a connection that is kept and still leads to the database."""
        while self._idle:
            try:
                kept = self._idle.pop()
            except IndexError:
                return None
            if kept.pid != os.getpid():
                _inherited.append(kept)  # its socket is the parent's: not even closed here
            elif kept.file != self._identity():
                _close(kept.connection)
                self._is_migrated = False
                self._migrate()
            else:
                return kept
        return None

    def _keep(self, connection: Connection) -> None:
        if len(self._idle) < _IDLE:
            self._idle.append(_Kept(connection, os.getpid(), self._identity()))
        else:
            _close(connection)

    def _identity(self) -> Any:
        """Tell the database's file from one that was put in its place."""
        if not self._file:
            return None
        try:
            found = os.stat(self._file)
        except OSError:
            return ()
        return found.st_dev, found.st_ino

    def _translated(self, error: Exception) -> Exception:
        words = str(getattr(error, "orig", None) or error)
        if isinstance(error, RuntimeError):
            return StoreError(words)  # our own: a schema of a newer version
        if self.kind == "sqlite" and ("database is locked" in words or "database table is locked" in words):
            return _Busy("database is locked")
        is_unknown = isinstance(error, ProgrammingError) and not getattr(error.orig, "sqlstate", None)
        if is_unknown or isinstance(error, (DataError, IntegrityError)):
            return ValueRefused(type(error).__name__)  # the driver, or the database, cannot take a value
        if isinstance(error, StatementError) and not isinstance(error, DBAPIError):
            return ValueRefused(type(error.orig).__name__)
        if "no such table" in words or ("relation" in words and "does not exist" in words):
            self._is_migrated = False  # somebody put an empty database in its place
        return StoreError(_told(error))


_inherited: list[_Kept] = []
"""Connections that came with a fork, kept from being closed."""


def _transact(connection: Connection, writes: bool, work: Work[T]) -> T:
    connection.info["sluice_writes"] = writes
    with connection.begin():
        return work(connection)


def _close(connection: Connection) -> None:
    try:
        connection.close()
    except Exception as error:
        log.debug("closing a database connection failed with %s", type(error).__name__)


def _make_engine(url: URL, kind: str) -> Engine:
    if kind == "postgresql":
        arguments = {name: value for name, value in _POSTGRESQL.items() if name not in url.query}
        url = url.set(drivername="postgresql+psycopg")
    else:
        url = url.set(drivername="sqlite")
        # Calls come from native threads that differ, one at a time.
        arguments = {"timeout": _BUSY_MS / 1000, "check_same_thread": False, "isolation_level": None}
    try:
        engine = create_engine(
            url, poolclass=NullPool, connect_args=arguments, json_serializer=_json, json_deserializer=_loaded
        )
    except ModuleNotFoundError:
        raise ConfigurationError("SLUICE_DATABASE_URL: PostgreSQL needs the extra flask-sluice[postgresql]") from None
    if kind == "sqlite":
        event.listen(engine, "connect", _prepare_file)
        event.listen(engine, "begin", _begin)
    else:
        event.listen(engine, "connect", _limit)
    return engine


def _json(value: Any) -> str:
    return value if isinstance(value, Json) else wire.dumps(value).decode()


def _loaded(text: str | bytes) -> Any:
    return wire.loads(text.encode() if isinstance(text, str) else text)


def _prepare_file(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA temp_store=MEMORY")
    cursor.close()


def _limit(connection: Any, _record: object) -> None:
    # NOTE: not in the connection's options, which poolers refuse.
    connection.execute(_LIMITS)
    connection.commit()


def _begin(connection: Connection) -> None:
    # A transaction that reads first and then writes could not wait for another writer; one that begins by writing can.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.info.get("sluice_writes") else "BEGIN")


def _told(error: Exception) -> str:
    """Say what is wrong in words that hold nothing of ours: drivers name addresses, users and values."""
    cause = getattr(error, "orig", None) or error
    state = getattr(cause, "sqlstate", None)
    name = f"{type(cause).__name__} {state}" if state else type(cause).__name__
    found = [phrase for phrase in _KNOWN if phrase in str(cause)]
    return f"{name}: {found[0]}" if found else name
