"""Requests under way at once, counted by leases: one is taken, kept alive, and given back, or runs out by itself.

In Redis the leases of a caller are a sorted set of names by the time they run out, on Redis' own clock. A process that
dies takes none with it: what nobody renews is free again after ``TTL``.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections import Counter

from .shared import Shared, SharedAway

__all__ = ["TTL", "Lease", "MemoryLeases", "SharedLeases"]

log = logging.getLogger("sluice")

TTL = 15.0
"""Seconds after which a lease that is not renewed is free."""
_RENEW = 4.0
"""Seconds between two renewals: three may fail before anything is lost."""
_LINGER = 8
"""Renewals without a lease after which the thread ends; the next lease starts it anew."""

_PREFIX = "sluice:streams:"

_ACQUIRE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""

# A lease that Redis has lost, by a restart or because it was away for too long, is there again after this: its request
# is still under way.
_EXTEND = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for number = 2, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[number]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
"""


class Lease:
    """One request's place among its caller's."""

    __slots__ = ("leases", "name", "subject")

    def __init__(self, leases: MemoryLeases | SharedLeases, subject: str) -> None:
        self.leases, self.subject, self.name = leases, subject, secrets.token_hex(8)

    def release(self) -> None:
        """Give the place back; idempotent, never raises for a Redis that is away."""
        self.leases.release(self)


class MemoryLeases:
    """Leases of this process alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._names: set[str] = set()

    def acquire(self, subject: str, limit: int) -> Lease | None:
        """Take a place of *subject*'s; None when all *limit* are taken."""
        with self._lock:
            if self._held[subject] >= limit:
                return None
            lease = Lease(self, subject)
            self._held[subject] += 1
            self._names.add(lease.name)
            return lease

    def release(self, lease: Lease) -> None:
        """See ``Lease.release``."""
        with self._lock:
            if lease.name in self._names:
                self._names.remove(lease.name)
                self._held[lease.subject] -= 1
                if not self._held[lease.subject]:
                    del self._held[lease.subject]


class SharedLeases:
    """Leases in Redis, shared by all workers.

    Args:
        shared: Redis.
        ttl: seconds after which a lease that is not renewed is free.
        renew: seconds between two renewals.
    """

    def __init__(self, shared: Shared, ttl: float = TTL, renew: float = _RENEW) -> None:
        self._shared, self._ttl_ms, self._renew_each = shared, round(ttl * 1000), renew
        self._acquire = shared.client.register_script(_ACQUIRE)
        self._extend = shared.client.register_script(_EXTEND)
        self._lock = threading.Lock()
        self._held: dict[str, str] = {}  # subject by name
        # Given back and not taken out of Redis yet: subject, and when the lease runs out anyway, by name.
        self._owed: dict[str, tuple[str, float]] = {}
        self._running_in: int | None = None

    def acquire(self, subject: str, limit: int) -> Lease | None:
        """Take a place of *subject*'s; None when all *limit* are taken.

        Raises:
            SharedAway: Redis cannot be asked.
        """
        lease = Lease(self, subject)
        try:
            arguments = [lease.name, limit, self._ttl_ms]
            if not self._shared.call(self._acquire, keys=[_PREFIX + subject], args=arguments):
                return None
        except BaseException:
            # It may have been taken although the answer did not come, or was not waited for.
            self._owe(lease.name, subject)
            self._ensure_running()
            raise
        self._held[lease.name] = lease.subject
        self._ensure_running()
        return lease

    def hold(self, subject: str) -> Lease:
        """Take a place although Redis cannot be asked; it is told when it is back."""
        lease = Lease(self, subject)
        self._held[lease.name] = subject
        self._ensure_running()
        return lease

    def release(self, lease: Lease) -> None:
        """See ``Lease.release``."""
        if self._held.pop(lease.name, None) is not None:
            self._owe(lease.name, lease.subject)
            self._pay()

    def renew(self) -> None:
        """Put off the end of every lease that is held."""
        held = dict(self._held)
        subjects: dict[str, list[str]] = {}
        for name, subject in held.items():
            subjects.setdefault(subject, []).append(name)
        try:
            for subject, names in subjects.items():
                self._shared.call(self._extend, keys=[_PREFIX + subject], args=[self._ttl_ms, *names])
        except SharedAway:
            pass
        # What was given back meanwhile may have been put in again.
        for name, subject in held.items():
            if name not in self._held:
                self._owe(name, subject)
        self._pay()

    def _pay(self) -> None:
        """Take what was given back out of Redis; what cannot be now is tried again at the next renewal."""
        now = time.monotonic()
        for name, (subject, runs_out_at) in tuple(self._owed.items()):
            if now < runs_out_at:
                try:
                    self._shared.call(self._shared.client.zrem, _PREFIX + subject, name)
                except SharedAway:
                    continue
            self._owed.pop(name, None)

    def _owe(self, name: str, subject: str) -> None:
        self._owed[name] = (subject, time.monotonic() + self._ttl_ms / 1000)

    def _ensure_running(self) -> None:
        with self._lock:
            # A forked child inherits the notes of a thread that it does not have.
            if self._running_in != os.getpid():
                threading.Thread(target=self._run, name="sluice-leases", daemon=True).start()
                self._running_in = os.getpid()

    def _run(self) -> None:
        idle = 0
        while True:
            time.sleep(self._renew_each)
            try:
                self.renew()
            except Exception:
                log.exception("leases could not be renewed")
            idle = 0 if self._held or self._owed else idle + 1
            if idle > _LINGER and self._may_end():
                return

    def _may_end(self) -> bool:
        with self._lock:
            if self._held or self._owed:
                return False
            self._running_in = None
            return True
