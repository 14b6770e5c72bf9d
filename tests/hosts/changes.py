"""What extensions, middleware and settings do to an application that the gateway is mounted in."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response
from flask.json.provider import DefaultJSONProvider
from flask.sessions import SecureCookieSessionInterface
from flask_compress import Compress
from flask_cors import CORS
from flask_login import LoginManager, UserMixin, current_user
from werkzeug.middleware.proxy_fix import ProxyFix

__all__ = ["CHANGES", "everything"]


def compressed(app: Flask) -> None:
    """Flask-Compress, told to compress event streams and however little."""
    app.config |= {"COMPRESS_MIMETYPES": ["text/event-stream", "application/json"], "COMPRESS_MIN_SIZE": 1}
    Compress(app)


def logged_in(app: Flask) -> None:
    """Flask-Login, in front of every route."""
    app.secret_key = "for tests"
    manager = LoginManager(app)

    @manager.request_loader
    def load(request: Any) -> UserMixin | None:
        return UserMixin() if request.headers.get("X-User") == "ann" else None

    @app.before_request
    def require() -> Any:
        return None if current_user.is_authenticated else manager.unauthorized()


def crossed(app: Flask) -> None:
    """Flask-Cors for every route."""
    CORS(app)


def proxied(app: Flask) -> None:
    """Werkzeug's ProxyFix, which believes what the proxy in front says."""
    app.wsgi_app = ProxyFix(app.wsgi_app, x_for=1, x_proto=1, x_host=1, x_prefix=1)  # type: ignore[method-assign]


class Peculiar(DefaultJSONProvider):
    """Writes JSON that is none."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        """Write something else."""
        return f"peculiar({super().dumps(obj, **kwargs)})"

    def loads(self, s: str | bytes, **kwargs: Any) -> Any:
        """Read nothing."""
        raise ValueError("this application reads no JSON")


def peculiar(app: Flask) -> None:
    """A JSON provider of the application's own."""
    app.json = Peculiar(app)


def handled(app: Flask) -> None:
    """Error handlers for everything that can be raised, and for single statuses."""
    for kind in (Exception, 400, 401, 404, 405, 413, 415, 500):
        app.register_error_handler(kind, lambda error: ("<h1>the host's own page</h1>", 200))


class AlwaysSaved(SecureCookieSessionInterface):
    """Sets its cookie with every response."""

    def should_set_cookie(self, app: Flask, session: Any) -> bool:
        """Do, always."""
        return True

    def save_session(self, app: Flask, session: Any, response: Response) -> None:
        """Change the session and save it."""
        session["count"] = session.get("count", 0) + 1
        super().save_session(app, session, response)


def remembered(app: Flask) -> None:
    """A session interface that writes with every response."""
    app.secret_key = "for tests"
    app.session_interface = AlwaysSaved()


class Stamped(Response):
    """The application's own kind of response."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.headers["X-Stamp"] = "the host's"


def stamped(app: Flask) -> None:
    """A response class of the application's own."""
    app.response_class = Stamped


def rooted(app: Flask) -> None:
    """An application that lives below a path, behind a limit of its own."""
    app.config |= {"APPLICATION_ROOT": "/below", "MAX_CONTENT_LENGTH": 100_000}


CHANGES = [compressed, logged_in, crossed, proxied, peculiar, handled, remembered, stamped, rooted]


def everything(app: Flask) -> None:
    """All of it at once."""
    for change in CHANGES:
        change(app)
