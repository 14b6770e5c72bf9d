"""An application with everything a host may have, and the gateway in it; its settings come from the environment."""

from __future__ import annotations

from flask import Flask

from app import create_blueprint
from tests.hosts.changes import everything

__all__ = ["app"]

app = Flask("host")
app.add_url_rule("/", "page", lambda: "the host's own page")
app.register_blueprint(create_blueprint(app.config, url_prefix="/ai"))
everything(app)
