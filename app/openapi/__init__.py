"""The OpenAPI document: made from the code that checks requests, the errors it raises and the routes it registers."""

from __future__ import annotations

from .document import make_document

__all__ = ["make_document"]
