"""gunicorn's own log in the format of ours; it knows the module by its name in ``gunicorn.conf.py``."""

from __future__ import annotations

from typing import Any

from gunicorn.glogging import Logger

from .log_format import JsonFormatter

__all__ = ["JsonLogger"]


class JsonLogger(Logger):  # type: ignore[misc]
    """Writes what gunicorn has to say as JSON, too."""

    def setup(self, cfg: Any) -> None:
        """Take gunicorn's handlers, with our formatter."""
        super().setup(cfg)
        for handler in (*self.error_log.handlers, *self.access_log.handlers):
            handler.setFormatter(JsonFormatter())
