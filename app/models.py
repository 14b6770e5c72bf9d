"""Upstream's model list: fetched once for all, kept for a while, served stale when upstream fails."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from .errors import GatewayError, NotFound, UpstreamProtocolError
from .upstream import UpstreamClient

__all__ = ["ModelList"]

_PAUSE = 5.0
"""Seconds before a fetch that failed is tried again while there is a stale list."""


class ModelList:
    """One process' copy of the list, in the shape that OpenAI's clients read.

    Args:
        client: fetches it with the operator's key, if there is one.
        ttl: age in seconds at which it is fetched anew.
    """

    def __init__(self, client: UpstreamClient, ttl: float) -> None:
        self._client, self._ttl = client, ttl
        self._lock = threading.Lock()
        self._models: dict[str, dict[str, Any]] | None = None
        self._next_fetch = 0.0

    def all(self) -> dict[str, Any]:
        """Give ``{"object": "list", "data": [...]}``.

        Raises:
            UpstreamError: there is no list yet and upstream does not give one.
        """
        return {"object": "list", "data": list(self._fresh().values())}

    def one(self, model_id: str) -> dict[str, Any]:
        """Give one model.

        Raises:
            NotFound: no model has this id.
            UpstreamError: as ``all``.
        """
        model = self._fresh().get(model_id)
        if model is None:
            raise NotFound(f"no model {model_id[:100]!r}: GET /v1/models lists those there are", code="model_not_found")
        return model

    def refresh_soon(self) -> None:
        """Fetch the list in the background where there is none or an old one."""
        if time.monotonic() >= self._next_fetch and not self._lock.locked():
            threading.Thread(target=self._refresh, name="sluice-models", daemon=True).start()

    def _refresh(self) -> None:
        with contextlib.suppress(GatewayError):
            self._fresh()

    def known(self, model_id: str) -> bool:
        """Tell whether the list as it is now has this id; never asks upstream."""
        return self._models is not None and model_id in self._models

    def _fresh(self) -> dict[str, dict[str, Any]]:
        models = self._models
        if models is not None and time.monotonic() < self._next_fetch:
            return models
        # One fetch serves all; who can be served the old list does not wait for it.
        if not self._lock.acquire(blocking=models is None):
            return models or {}
        try:
            if self._models is None or time.monotonic() >= self._next_fetch:
                self._fetch()
            return self._models or {}
        finally:
            self._lock.release()

    def _fetch(self) -> None:
        try:
            found = self._client.get("/models")
            data = found.get("data") if isinstance(found, dict) else None
            if not isinstance(data, list):
                raise UpstreamProtocolError("upstream's model list has no `data`")
        except GatewayError:
            if self._models is None:
                raise
            self._next_fetch = time.monotonic() + min(_PAUSE, self._ttl)
            return
        models = (_shaped(model) for model in data if isinstance(model, dict) and isinstance(model.get("id"), str))
        self._models = {model["id"]: model for model in models}
        self._next_fetch = time.monotonic() + self._ttl


def _shaped(model: dict[str, Any]) -> dict[str, Any]:
    """Add what OpenAI's list has and OpenRouter's has not."""
    created = model.get("created")
    owner = model["id"].partition("/")[0].lstrip("~") if "/" in model["id"] else "upstream"
    return {
        "id": model["id"],
        "object": "model",
        "created": created if created is not None else 0,
        "owned_by": owner,
    } | {key: value for key, value in model.items() if key != "created"}
