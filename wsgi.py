"""What ``gunicorn wsgi:app`` and ``flask run`` serve."""

from app import create_app

application = app = create_app()
