"""`python -m app.demo`: the demo upstream as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import sys
import threading

from .server import Options, Server

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Serve until a signal comes or, if asked for, until the parent's end of a pipe closes."""
    options = _parser().parse_args(arguments)
    _raise_file_limit()
    try:
        asyncio.run(_serve(options))
    except OSError as exc:
        sys.exit(f"demo upstream: {exc}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="demo", description="Speaks OpenRouter's API offline, from this machine.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--pace", type=float, default=25.0, help="tokens per second, 0 for no waiting")
    parser.add_argument("--first-token", type=float, default=0.4, help="seconds until the first token")
    parser.add_argument("--usage-form", choices=["empty", "choice"], default="empty", help="shape of the usage chunk")
    parser.add_argument("--record", action="store_true", help="keep all requests for GET /_demo/log (for tests)")
    parser.add_argument("--quiet", action="store_true", help="no log of method, path and status on stderr")
    parser.add_argument("--exit-on-stdin-eof", action="store_true", help="end when standard input closes")
    parser.add_argument("--exit-on-eof", type=int, metavar="FD", help="end when this file descriptor closes")
    return parser


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(options: argparse.Namespace) -> None:
    log = None if options.quiet else lambda line: print(line, file=sys.stderr, flush=True)
    server = Server(Options(options.pace, options.first_token, options.usage_form, options.record, log))
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    watched = 0 if options.exit_on_stdin_eof else options.exit_on_eof
    if watched is not None:
        threading.Thread(target=_watch, args=(watched, loop, stopped), daemon=True).start()
    port = await server.start(options.host, options.port)
    print(f"demo upstream listening on http://{options.host}:{port}/api/v1", flush=True)
    await stopped.wait()
    await server.stop()


def _watch(descriptor: int, loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    except OSError:
        pass  # a descriptor that cannot be read is as good as closed
    loop.call_soon_threadsafe(stopped.set)


if __name__ == "__main__":
    main()
