import os
import resource
import sys

_worker_class = os.environ.get("SLUICE_WORKER_CLASS") or "gevent"
if _worker_class == "gevent":
    from gevent import monkey

    # First of all, so that preloading is safe: what is imported before patching keeps blocking sockets and locks.
    monkey.patch_all()


def _whole(name, default):
    value = os.environ.get(name) or default
    try:
        return int(value)
    except ValueError:
        raise SystemExit(f"{name}: expected a whole number, got {value!r}") from None


_max_streams = _whole("SLUICE_MAX_STREAMS", 1000)

# Two files a stream, and some for all else; what the system does not allow lowers the limit on streams, and is said.
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
_wanted = 2 * _max_streams + 350
if resource.RLIM_INFINITY != _soft < _wanted:
    _may = _wanted if _hard == resource.RLIM_INFINITY else min(_wanted, _hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_may, _hard))

bind = os.environ.get("BIND") or "127.0.0.1:8000"
workers = _whole("WEB_CONCURRENCY", 1)
worker_class = _worker_class
# Beyond the limit on open streams, or the 503 that says so would never be reached.
worker_connections = _max_streams + 300
# gthread: a stream holds a thread for as long as it lasts, and those beyond the limit need one to be told so. Threads
# are started when they are needed.
threads = _max_streams + 20 if _worker_class == "gthread" else 1
# For gevent and gthread this is a sign of life, for sync the longest a request may take.
timeout = _whole("SLUICE_DEADLINE", 900) + 30 if _worker_class == "sync" else 60
# How long open streams may go on after SIGTERM; those left get an error event 2.5 s before.
graceful_timeout = _whole("SLUICE_GRACEFUL_TIMEOUT", 120)
# Longer than what load balancers keep idle connections for, so that they never use one we have just closed.
keepalive = 75
# Heartbeat files on disk can block a worker; memory cannot.
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None
# No second way into the process; its default place would be shared by every gunicorn of the user.
control_socket_disable = True

# Should someone switch it on: neither addresses nor query strings.
access_log_format = '%(t)s "%(m)s %(U)s %(H)s" %(s)s %(B)s %(L)s s'
# The hooks: open streams end properly at a shutdown, and all workers count into the same metrics.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from app.gunicorn import *  # noqa: E402, F403

if os.environ.get("SLUICE_LOG_FORMAT") == "json":
    # What gunicorn itself has to say, in the format of the gateway's log.
    from app.server_log import JsonLogger as logger_class  # noqa: F401
for _name in [name for name in sys.modules if name.partition(".")[0] == "app"]:
    del sys.modules[_name]  # the master has what it needs; workers load everything anew after a reload
