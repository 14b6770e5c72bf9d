"""The pages: the playground, the dashboard, and the files that both are made of.

Nothing of them is secret, so they are served to everyone; what they show they ask the API for, which has its gate.
"""

from __future__ import annotations

import html
from typing import Any

from flask import Response, request

from .. import wire
from ..assets import Asset, assets, digest
from ..errors import NotFound
from ..gateway import Gateway
from ..version import version
from .route import Route

__all__ = ["routes"]

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types dompurify",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_FOR_EVER = "public, max-age=31536000, immutable"


def routes(gateway: Gateway) -> list[Route]:
    """Give the routes of the pages and their files."""
    playground, dashboard = (_page(name, gateway) for name in ("playground", "dashboard"))

    def front() -> Response:
        """Give the playground, a page to try the gateway on."""
        return _reply(playground, "no-cache")

    def watch() -> Response:
        """Give the dashboard, a page to watch the gateway on."""
        return _reply(dashboard, "no-cache")

    def file(state: str, name: str) -> Response:
        """Give a file of the pages."""
        asset = assets().get(name)
        if asset is None:
            raise NotFound(f"/static has no {name[:100]!r}")
        # A page of another release asks under another name: it is served, but not kept under that.
        return _reply(asset, _FOR_EVER if state == digest() else "no-store")

    return [
        Route("GET", "/", front, below=""),
        Route("GET", "/dashboard", watch, below=""),
        Route("GET", "/static/<state>/<path:name>", file, below=""),
    ]


def _page(name: str, gateway: Gateway) -> Asset:
    """Make a page: its files get the name of their state, and it learns what it has to know of *gateway*."""
    text = assets()[f"{name}.html"].body.decode()
    known = html.escape(wire.dumps(_known(gateway)).decode())
    text = text.replace('"static/', f'"static/{digest()}/').replace("{{gateway}}", known)
    return Asset(text.encode(), "text/html; charset=utf-8")


def _known(gateway: Gateway) -> dict[str, Any]:
    """Give what a page has to know before it can ask: no secret, nothing about anybody."""
    settings = gateway.settings
    return {
        "version": version(),
        "demo": settings.demo,
        "needs_key": not gateway.gate.is_open,
        "takes_client_keys": settings.takes_client_keys,
        "stages": [stage.name for stage in gateway.pipeline.stages],
        "defaults": {
            "model": settings.default_model,
            "max_tokens": settings.default_max_tokens,
            "autotune": settings.autotune,
            "strategy": settings.strategy,
            "stm_modules": list(settings.stm_modules),
            "stm_mode": settings.stm_mode,
            "parseltongue": settings.parseltongue,
            "parseltongue_technique": settings.parseltongue_technique,
            "parseltongue_intensity": settings.parseltongue_intensity,
        },
    }


def _reply(asset: Asset, cache_control: str) -> Response:
    response = Response(asset.body, content_type=asset.content_type)
    response.headers.update(_HEADERS)
    response.headers["Cache-Control"] = cache_control
    response.add_etag()
    response.make_conditional(request)
    return response
