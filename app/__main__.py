"""``python -m app`` is the command line."""

from .cli import main

main()
