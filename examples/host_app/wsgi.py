"""What gunicorn and ``flask run`` serve."""

from journal import create_app

app = create_app()
