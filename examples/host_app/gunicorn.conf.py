import os

from gevent import monkey

# First of all: what is imported before patching keeps blocking sockets and locks.
monkey.patch_all()

from flask_sluice.gunicorn import *  # noqa: E402, F403  (so that open streams get their ending at shutdown)

bind = os.environ.get("BIND") or "127.0.0.1:8000"
worker_class = "gevent"
# More than SLUICE_MAX_STREAMS (1000), so that the answer "too many streams" still reaches its client.
worker_connections = 1300
# How long open streams may go on after SIGTERM.
graceful_timeout = 120
# No second way into the process.
control_socket_disable = True
