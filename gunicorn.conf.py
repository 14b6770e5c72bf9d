import os

_worker_class = os.environ.get("SLUICE_WORKER_CLASS") or "gevent"
if _worker_class == "gevent":
    from gevent import monkey

    # First of all, so that preloading is safe: what is imported before patching keeps blocking sockets and locks.
    monkey.patch_all()

from app.gunicorn import *  # noqa: E402, F403  (drain hooks)
from app.settings import Settings  # noqa: E402

_settings = Settings.from_env()

bind = os.environ.get("BIND") or "127.0.0.1:8000"
workers = int(os.environ.get("WEB_CONCURRENCY") or 1)
worker_class = _worker_class
# Beyond the limit on open streams, or the 503 that says so would never be reached.
worker_connections = _settings.max_streams + 300
# gthread: a stream holds a thread for as long as it lasts.
threads = min(_settings.max_streams, 200) if _worker_class == "gthread" else 1
# For gevent and gthread this is a sign of life, for sync the longest a request may take.
timeout = int(_settings.deadline) + 30 if _worker_class == "sync" else 60
# How long open streams may go on after SIGTERM; those left get an error event 2.5 s before.
graceful_timeout = int(os.environ.get("SLUICE_GRACEFUL_TIMEOUT") or 120)
# Longer than what load balancers keep idle connections for, so that they never use one we have just closed.
keepalive = 75
# Heartbeat files on disk can block a worker; memory cannot.
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None
# No second way into the process; its default place would be shared by every gunicorn of the user.
control_socket_disable = True
