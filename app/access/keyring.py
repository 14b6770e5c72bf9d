"""The keys that open the gate, among them a file's, which is read again when it changes."""

from __future__ import annotations

import hmac
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable
from pathlib import Path

from ..errors import ConfigurationError
from .key import Key, read_entries, read_file

__all__ = ["KeyRing"]

log = logging.getLogger("sluice")

_LOOK = 1.0
"""Least seconds between two looks at the file."""
_PAUSE = 1.0
"""Most seconds between two looks, and a little."""

_WHERE = "SLUICE_API_KEYS, SLUICE_API_KEYS_FILE"

_Stamp = tuple[int, int, int, int]


class KeyRing:
    """Keys by their hashes.

    Args:
        entries: ``label:key`` or ``label:sha256:hex``.
        path: the key file, if there is one.

    Raises:
        ConfigurationError: an entry or the file cannot be used.
    """

    def __init__(self, entries: Iterable[str] = (), path: str | None = None) -> None:
        self._fixed = read_entries(entries)
        self._path = Path(path) if path else None
        self._lock = threading.Lock()
        self._stamp = self._look() if self._path else None
        self._looked_at = time.monotonic()
        self._keys = self._read()
        self.failure: str | None = None
        """What is wrong with the file's newest version, of which nothing is taken; None when it is in use."""
        self._watched_in: int | None = None
        self._watch()

    @property
    def is_used(self) -> bool:
        """Whether keys are asked for at all; a file without keys lets nobody in."""
        return bool(self._path or self._keys)

    @property
    def is_limited(self) -> bool:
        """Whether a key has a rate or a number of streams of its own."""
        return any(key.rates or key.streams for key in self._keys.values())

    def find(self, digest: str) -> Key | None:
        """Give the key with this SHA-256, hex."""
        if self._watched_in != os.getpid():
            self._watch()  # a forked child inherits the notes of a thread that it does not have
        self.refresh()
        found = None
        for known, key in self._keys.items():  # all of them, so that the time tells nothing
            if hmac.compare_digest(known, digest):
                found = key
        return found

    def refresh(self) -> None:
        """Take over a changed file; looks about once a second, however often it is called."""
        if self._path is None or time.monotonic() - self._looked_at < _LOOK or not self._lock.acquire(blocking=False):
            return
        try:
            self._looked_at = time.monotonic()
            self._take_over()
        finally:
            self._lock.release()

    def _watch(self) -> None:
        """Look at the file without being asked: a worker without requests would miss a version, and with it that a
        key is revoked, if the next one is broken."""
        self._watched_in = os.getpid()
        if self._path is not None:
            threading.Thread(target=_keep_looking, args=(weakref.ref(self),), name="sluice-keys", daemon=True).start()

    def _take_over(self) -> None:
        try:
            stamp = self._look()
            if stamp == self._stamp:
                return
            # Looked at before it is read: a change in between is seen at the next look.
            self._stamp = stamp
            self._keys = self._read()
        except ConfigurationError as error:
            if error.__cause__ is not None:
                self._stamp = None  # the system's fault, not the file's: the same version may be readable next time
            if self.failure != error.message:
                self.failure = error.message
                log.error("%s; the keys read before stay in use", error.message)
        else:
            self.failure = None
            log.info("SLUICE_API_KEYS_FILE was read again: %d keys", len(self._keys))

    def _look(self) -> _Stamp:
        assert self._path is not None
        try:
            found = self._path.stat()
        except OSError as error:
            raise ConfigurationError(f"SLUICE_API_KEYS_FILE: {self._path}: {error.strerror}") from error
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

    def _read(self) -> dict[str, Key]:
        keys = list(self._fixed)
        if self._path is not None:
            try:
                keys += read_file(self._path.read_bytes())
            except OSError as error:
                raise ConfigurationError(f"SLUICE_API_KEYS_FILE: {self._path}: {error.strerror}") from error
        return _by_hash(keys)


def _keep_looking(ring: weakref.ref[KeyRing]) -> None:
    while True:
        time.sleep(_PAUSE)
        found = ring()
        if found is None:
            return
        found.refresh()
        del found


def _by_hash(keys: Iterable[Key]) -> dict[str, Key]:
    found: dict[str, Key] = {}
    labels: set[str] = set()
    for key in keys:
        if key.label in labels:
            raise ConfigurationError(
                f"SLUICE_API_KEYS, SLUICE_API_KEYS_FILE: the label {key.label!r} stands there twice"
            )
        labels.add(key.label)
        for digest in key.hashes:
            if digest in found:
                raise ConfigurationError(f"{_WHERE}: {found[digest].label!r} and {key.label!r} have the same key")
            found[digest] = key
    return found
