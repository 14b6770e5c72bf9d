"""Putting it together: the application, the blueprint, the extension."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flask import Blueprint, Flask, Response, request
from flask.sansio.blueprints import BlueprintSetupState
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from . import wire
from .cors import Cors
from .errors import type_for_status
from .gate import Authenticate
from .gateway import Gateway
from .identity import attend
from .logs import log_record, set_up
from .pipeline import Stage
from .record import Recorder
from .routes import EXTRAS, make_blueprint
from .settings import Settings

__all__ = ["Sluice", "create_app", "create_blueprint"]


def create_blueprint(
    settings: Settings | Mapping[str, Any] | None = None,
    *,
    stages: Iterable[Stage] = (),
    authenticate: Authenticate | None = None,
    recorder: Recorder = log_record,
    name: str = "sluice",
    url_prefix: str | None = None,
    extras: Iterable[str] = (),
) -> Blueprint:
    """Make a blueprint that serves the gateway below *url_prefix*.

    Args:
        settings: settings, or a mapping to read over the environment (a Flask config, say); None: the environment.
        stages: your own stages, beside those that ship.
        authenticate: takes the Flask request, gives the caller's label, or None to refuse; instead of keys.
        recorder: takes each finished record; must not block.
        name: the blueprint's name, another one for each further gateway in an application.
        url_prefix: where it is mounted.
        extras: what to serve beside ``/v1``: ``"openapi"`` for the document at ``/openapi.json``,
            ``"metrics"`` for Prometheus at ``/metrics``, ``"pages"`` for the playground at ``/``
            and the dashboard at ``/dashboard``.

    Raises:
        ConfigurationError: a setting is wrong, or nothing says who may call.
    """
    if not isinstance(settings, Settings):
        settings = Settings.from_mapping(os.environ, settings or {})
    gateway = Gateway(settings, stages=tuple(stages), authenticate=authenticate, recorder=recorder)
    blueprint = make_blueprint(gateway, name, __name__, url_prefix, tuple(extras))

    def mounted(state: BlueprintSetupState) -> None:
        gateway.keep_in(state.app.instance_path)
        state.app.extensions.setdefault("sluice", {})[name] = gateway

    blueprint.record_once(mounted)
    cors = Cors(settings.cors_origins, is_open=gateway.gate.is_open)
    blueprint.record(lambda state: attend(state.app, gateway.metrics, _ownership(state)))
    blueprint.record(lambda state: cors.attend(state.app, _ownership(state)))
    return blueprint


class Sluice:
    """The gateway as a Flask extension.

    Args:
        app: is initialised at once when given.
        options: as ``create_blueprint`` takes them; the settings come from the environment and the app's config.
    """

    def __init__(self, app: Flask | None = None, **options: Any) -> None:
        self._options = options
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask, **options: Any) -> None:
        """Mount the gateway in *app*; *options* go over those of the constructor.

        Raises:
            ConfigurationError: as ``create_blueprint``.
        """
        app.register_blueprint(create_blueprint(app.config, **{**self._options, **options}))


def create_app(settings: Settings | Mapping[str, Any] | None = None, **options: Any) -> Flask:
    """Make the application that serves the gateway and nothing else; *options* as ``create_blueprint`` takes them.

    All extras are served unless *options* name some.

    Raises:
        ConfigurationError: as ``create_blueprint``.
    """
    if not isinstance(settings, Settings):
        settings = Settings.from_mapping(os.environ, settings or {})
    set_up(settings)
    app = _OwnApp(__name__, static_folder=None)
    app.register_blueprint(create_blueprint(settings, **{"extras": EXTRAS, **options}))
    app.register_error_handler(HTTPException, _told)
    return app


class _OwnApp(Flask):
    """An application in which every request is the gateway's."""


def _ownership(state: BlueprintSetupState) -> Callable[[], bool]:
    """Make the test for requests that are the gateway's: of its routes, or below its prefix where none matches."""
    registered = f"{state.name_prefix}.{state.name}".lstrip(".")
    below = f"{state.url_prefix or ''}/v1/"
    if isinstance(state.app, _OwnApp):
        return lambda: True
    return lambda: registered in request.blueprints or request.path.replace("//", "/").startswith(below)


def _told(error: HTTPException) -> Response:
    """Answer what no blueprint answers in OpenAI's shape too."""
    status = error.code or 500
    message = "no such route here: the API is below /v1" if status == 404 else error.description
    code = error.name.lower().replace(" ", "_")
    body = {"error": {"message": message, "type": type_for_status(status), "param": None, "code": code}}
    response = Response(wire.dumps(body), status, mimetype="application/json")
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        response.headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return response
