"""The blueprint: every view, and an answer of OpenAI's shape for whatever goes wrong."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable
from types import ModuleType

from flask import Blueprint, Response, request
from flask.sansio.blueprints import BlueprintSetupState
from werkzeug.exceptions import HTTPException, default_exceptions

from .errors import ConfigurationError, GatewayError, InternalError, MethodNotAllowed, NotFound, RequestError
from .faults import told
from .gateway import Gateway
from .identity import note_arrival, request_id
from .peer import Peer
from .reply import error_reply
from .views import chat, feedback, health, metadata, metrics, models, openapi, pages, stages
from .views.admission import show_standing
from .views.route import Route, View
from .worker import check_worker

__all__ = ["EXTRAS", "make_blueprint"]

log = logging.getLogger("sluice")

_OPENAI_ONLY = ("responses", "completions", "embeddings")
_VIEWS = (chat, models, health, metadata, feedback, stages)
_BESIDE: dict[str, ModuleType] = {"metrics": metrics, "pages": pages}
EXTRAS = ("openapi", *_BESIDE)
"""What an application of the gateway's own serves beside ``/v1``, and a blueprint only if told to."""


def make_blueprint(
    gateway: Gateway, name: str, import_name: str, url_prefix: str | None, extras: Collection[str] = ()
) -> Blueprint:
    """Make the blueprint that serves *gateway*, with those of ``EXTRAS`` that are named.

    Raises:
        ConfigurationError: there is no such extra.
    """
    if unknown := set(extras) - set(EXTRAS):
        raise ConfigurationError(f"extras: expected any of {', '.join(EXTRAS)}, got {min(unknown)!r}")
    blueprint = Blueprint(name, import_name, url_prefix=url_prefix)
    chosen = [*_VIEWS, *(views for extra, views in _BESIDE.items() if extra in extras)]
    routes = [route for views in chosen for route in views.routes(gateway)]
    if "openapi" in extras:
        routes.append(openapi.route(gateway, tuple(routes)))
    for route in routes:
        endpoint = f"{route.method} {route.path}".replace(".", "_")
        blueprint.add_url_rule(
            route.rule, endpoint, route.view, methods=[route.method], provide_automatic_options=route.below != "/v1"
        )
    blueprint.add_url_rule("/v1/<path:rest>", "unknown", _unknown(routes), provide_automatic_options=False)
    blueprint.record(_take_any_method)
    # Later than our own look at streams, which knows more and tells the record.
    silence = 3 * gateway.settings.client_stall_timeout
    check = _once(lambda: check_worker(request.environ.get("SERVER_SOFTWARE", "")))

    def arrive() -> None:
        Peer(request.environ).limit_silence(silence)
        note_arrival()
        check()

    blueprint.before_request(arrive)
    blueprint.after_request(show_standing)
    blueprint.register_error_handler(GatewayError, error_reply)
    blueprint.register_error_handler(HTTPException, _translated)
    for code in default_exceptions:
        blueprint.register_error_handler(code, _translated)  # or handlers of the application's for a code go before
    blueprint.register_error_handler(Exception, _unexpected)
    return blueprint


def _take_any_method(state: BlueprintSetupState) -> None:
    """Let the view of unknown paths answer every method: Flask would want a list, and tell it as what is allowed."""
    for rule in state.app.url_map.iter_rules(".".join(filter(None, (state.name_prefix, state.name, "unknown")))):
        rule.methods = None


def _translated(error: HTTPException) -> Response | HTTPException:
    cause = getattr(error, "original_exception", None)
    if isinstance(cause, GatewayError):
        return error_reply(cause)  # raised in a hook behind the view, where Flask asks no other handler
    code = error.code or 500
    if code < 400:
        return error  # a redirect of the router
    found = GatewayError if code >= 500 else RequestError
    return error_reply(found(error.description or error.name, status=code, code=error.name.lower().replace(" ", "_")))


def _unexpected(error: Exception) -> Response:
    log.error("request %s failed: %s", request_id(), told(error))
    return error_reply(InternalError("the gateway failed; its log says why"))


def _unknown(routes: Iterable[Route]) -> View:
    """Make the view of every path that is none of ours."""
    methods: dict[str, set[str]] = {}
    for route in routes:
        if route.below == "/v1":
            methods.setdefault(route.path, set()).add(route.method)
    listed = ", ".join(f"{'/'.join(sorted(found))} /v1{path}" for path, found in methods.items())

    def view(rest: str) -> Response:
        path = "/models/<path:model_id>" if rest.startswith("models/") else f"/{rest}"
        if path in methods:
            allowed = ", ".join(sorted(methods[path]))
            if request.method == "OPTIONS":
                return Response(status=204, headers={"Allow": allowed})  # a host's CORS extension adds the rest
            raise MethodNotAllowed(
                f"/v1/{rest[:100]} takes {allowed}, not {request.method}", headers={"Allow": allowed}
            )
        why = " of OpenAI's, which this gateway does not have" if rest in _OPENAI_ONLY else ""
        raise NotFound(f"/v1/{rest[:100]} is no route{why or ' here'}; there are: {listed}")

    return view


def _once(check: Callable[[], None]) -> Callable[[], None]:
    """Make a hook that runs *check* until it has passed once in this process."""
    passed_in: set[int] = set()

    def hook() -> None:
        if os.getpid() not in passed_in:
            check()
            passed_in.add(os.getpid())

    return hook
