"""Make docs/screenshots: both pages, light and dark, on a desk and on a phone.

    python scripts/screenshots.py

Needs Chromium and the packages of requirements-dev.txt. The playground talks to the demo upstream; the dashboard shows
a day of made-up records besides.
"""

from __future__ import annotations

import logging
import math
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from flask import Flask
from playwright.sync_api import Browser, Page, sync_playwright
from werkzeug.serving import make_server

from app import create_app
from app.demo import DemoUpstream
from app.gateway import Gateway

FOLDER = ROOT / "docs" / "screenshots"
DESK = {"width": 1280, "height": 840}
PHONE = {"width": 390, "height": 844}
HOURS = 24
ENDS = {
    "completed": 84,
    "tool_calls": 6,
    "length": 4,
    "client_disconnected": 4,
    "upstream_error": 2,
    "upstream_timeout": 1,
}
MODELS = {"nousresearch/hermes-4-70b": 6, "openai/gpt-5.2": 4, "anthropic/claude-sonnet-5": 3, "demo/story": 1}


def main() -> None:
    """Make all of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)
    random.seed(7)  # the same day each time
    with tempfile.TemporaryDirectory() as folder, DemoUpstream(pace=35, first_token=0.3, record=False) as upstream:
        app = create_app(
            {
                "SLUICE_OPEN": "on",
                "SLUICE_DEMO": "on",
                "OPENROUTER_API_KEY": "demo",
                "OPENROUTER_BASE_URL": upstream.base_url,
                "SLUICE_DATABASE_URL": f"sqlite:///{folder}/records.db",
            },
            recorder=lambda record: None,
        )
        make_history(app.extensions["sluice"]["sluice"])
        with served(app) as url, sync_playwright() as playwright:
            chromium = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for scheme in ("light", "dark"):
                for device, size in (("desktop", DESK), ("phone", PHONE)):
                    shoot(browser, url, scheme, device, size)
            browser.close()
    for path in sorted(FOLDER.glob("*.png")):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size // 1024} KB")


@contextmanager
def served(app: Flask) -> Iterator[str]:
    """Serve *app* on a port of the system's choice; give its address."""

    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


def shoot(browser: Browser, url: str, scheme: str, device: str, size: dict[str, int]) -> None:
    """Take both pages in one colour scheme on one device."""
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.goto(url)
    page.click("[data-example] >> nth=0")
    page.wait_for_selector(".happened", timeout=60_000)
    if device == "desktop":
        page.click(".happened summary")
        page.evaluate("document.querySelector('.correction').scrollIntoView({ block: 'center' })")
    page.screenshot(path=FOLDER / f"playground-{scheme}-{device}.png")
    page.close()
    watched(context.new_page(), url, 3 if device == "desktop" else 2)
    context.pages[-1].screenshot(path=FOLDER / f"dashboard-{scheme}-{device}.png")
    context.close()


def watched(page: Page, url: str, looks: int) -> None:
    """Open the dashboard while answers stream, for so many looks at the metrics."""
    asker = page.context.new_page()
    asker.goto(url)
    asker.click("[data-example] >> nth=0")
    page.bring_to_front()
    page.goto(f"{url}/dashboard")
    for _ in range(looks):
        with page.expect_response("**/metrics"):
            pass
    page.wait_for_selector("#events-rows tr")
    asker.close()


def make_history(gateway: Gateway) -> None:
    """Record a day of requests that nobody made."""
    now = time.time()
    for hour in range(HOURS):
        busy = 12 + 10 * math.sin((hour - 8) / HOURS * 2 * math.pi)
        for _ in range(int(busy) + random.randrange(6)):
            make_record(gateway, now - (HOURS - hour) * 3600 + random.random() * 3600)
    assert gateway.journal is not None
    gateway.journal.flush(10)


def make_record(gateway: Gateway, at: float) -> None:
    """Record one made-up request."""
    end = random.choices(list(ENDS), list(ENDS.values()))[0]
    first, tokens = random.lognormvariate(6.2, 0.5), int(random.lognormvariate(5.4, 0.6))
    record = gateway.new_record()
    record.created_at, record.stream = at, True
    record.requested_model = record.served_model = random.choices(list(MODELS), list(MODELS.values()))[0]
    record.key_label = random.choice(("ann", "bob", "ci"))
    record.headers_ms, record.first_chunk_ms = first - 4, round(first, 1)
    record.chunks, record.characters = tokens, tokens * 4
    record.usage = {
        "prompt_tokens": 180,
        "completion_tokens": tokens,
        "total_tokens": 180 + tokens,
        "cost": tokens * 4e-6,
    }
    record.attempts = [{"status": 429, "wait": 1.1}] * (random.random() < 0.04) + [{"status": 200}]
    if end.startswith("upstream"):
        record.error_code, record.error_type = end, "server_error"
    clock = 0.0
    for _ in range(tokens):
        clock += random.lognormvariate(-3.6, 0.5)
        record.gaps.note(clock)
    record._started -= first / 1000 + clock
    record.close(end)


if __name__ == "__main__":
    main()
