"""What stands behind the gate: keys and what each may do, and how much of it; nothing here knows Flask."""

from __future__ import annotations

from .caller import Caller, subject_of
from .key import Key
from .keyring import KeyRing
from .quota import Place, Quotas
from .rules import apply_rules

__all__ = ["Caller", "Key", "KeyRing", "Place", "Quotas", "apply_rules", "subject_of"]
