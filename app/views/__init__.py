"""The HTTP views, one module a noun; each gives its ``routes``, which ``routes.py`` assembles."""
