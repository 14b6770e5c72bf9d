"""What the browser tests share: one Chromium, one upstream and one gateway under gunicorn for all of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from app.demo import DemoUpstream
from tests.clock import PATIENCE
from tests.servers import GunicornGateway

_WATCH = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
  window.__violations.push(`${violatedDirective} ${blockedURI}`);
});
window.__ran = [];
for (const name of ["alert", "confirm", "prompt"]) window[name] = (...words) => { window.__ran.push(words.join()); };
"""
"""Notes what the policy had to stop, and what a payload of the tests would call; runs before the page's own scripts."""

expect.set_options(timeout=PATIENCE * 1000)  # milliseconds

DESK = {"width": 1280, "height": 800}
OpenPage = Callable[..., Page]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Give the system's Chromium."""
    with sync_playwright() as playwright:
        # As root, as in most containers, Chromium does not start with a sandbox, and /dev/shm may be too small for it.
        launched = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def demo() -> Iterator[DemoUpstream]:
    """Give the upstream behind ``gateway``."""
    with DemoUpstream() as server:
        yield server


@pytest.fixture
def upstream(demo: DemoUpstream) -> Iterator[DemoUpstream]:
    """Give the upstream with nothing queued."""
    demo.clear()
    yield demo
    demo.clear()


@pytest.fixture(scope="package")
def gateway(demo: DemoUpstream) -> Iterator[GunicornGateway]:
    """Give a gateway as ``make run`` starts it, in front of ``upstream``."""
    env = {"OPENROUTER_BASE_URL": demo.base_url, "SLUICE_DEMO": "on", "SLUICE_RETRY_BACKOFF": "0.05"}
    with GunicornGateway(env) as server:
        yield server


@pytest.fixture
def open_page(browser: Browser, gateway: GunicornGateway) -> Iterator[OpenPage]:
    """Give a function that opens a path in a tab of its own; afterwards no script may have failed in any of them."""
    opened: list[Page] = []
    failures: list[str] = []

    def start(path: str = "/", *, url: str | None = None, **options: Any) -> Page:
        # Without motion, so that nothing is looked at while it fades in.
        context = browser.new_context(**{"viewport": DESK, "reduced_motion": "reduce", **options})
        context.add_init_script(_WATCH)
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto((url or gateway.url) + path)
        opened.append(page)
        return page

    yield start
    violations = [found for page in opened for found in page.evaluate("window.__violations")]
    for page in opened:
        page.context.close()
    assert [] == failures
    assert [] == violations, "the pages themselves keep to their Content-Security-Policy"


def wait_for_the_end(page: Page, answers: int = 1) -> None:
    """Wait until so many answers are on the page, each drawn to its end, and the next message can be sent."""
    expect(page.locator(".answer")).to_have_count(answers)
    expect(page.locator(".answer[aria-busy]")).to_have_count(0)
    expect(page.locator(".answer .actions:not([hidden])")).to_have_count(answers)
    expect(page.locator("#send")).to_be_visible()


def serious(page: Page) -> list[str]:
    """Give what axe finds serious or critical in *page* as it is."""
    found = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def is_wider_than_its_window(page: Page) -> bool:
    """Tell whether *page* has to be scrolled sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))
