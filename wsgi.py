"""What ``gunicorn wsgi:app`` and ``flask run`` serve."""

import sys

from app import ConfigurationError, create_app

try:
    application = app = create_app()
except ConfigurationError as error:
    print(f"Sluice cannot start: {error.message}", file=sys.stderr)
    raise SystemExit(4) from None  # gunicorn's own status for it: it stops instead of trying again
