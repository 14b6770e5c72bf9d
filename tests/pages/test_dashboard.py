"""The dashboard, as an operator at a browser meets it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app.demo import DemoUpstream
from tests.clock import PATIENCE
from tests.conftest import Served
from tests.pages.conftest import OpenPage, is_wider_than_its_window, serious

DARK_PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
KEYS = {"SLUICE_OPEN": "off", "SLUICE_API_KEYS": "ann:ann-key"}
BAD = "<img src=x onerror=alert(1)>"


def ask(served: Served, **body: Any) -> None:
    """Send a request and take its whole answer."""
    with served.ask(**body) as stream:
        stream.read()


def make_history(served: Served, upstream: DemoUpstream) -> None:
    """Let three requests complete, one with a retry, one be cut and one be rejected; wait until all are written."""
    limited = [{"answer": {"status": 429, "json": {"error": {"code": 429, "message": "Slow down"}}}}]
    upstream.play_attempts([[{"text": "One two three"}], limited, [{"text": "Four"}]])
    for model in ("a/fast", "a/fast", BAD):
        ask(served, model=model)
    upstream.play([{"text": "Half"}, {"cut": "fin"}])
    ask(served, model="b/broken")
    ask(served, model="b/broken", messages=[])
    wait_until_written(served, 5)


def wait_until_written(served: Served, count: int) -> None:
    """Wait until so many requests are recorded and none of them waits for the database."""
    served.record(count)
    journal = served.gateway.journal
    assert journal is not None
    assert journal.flush(PATIENCE)


def value(page: Page, tile: str) -> Any:
    """Give the number of a tile."""
    return page.locator(f"#tile-{tile}")


@pytest.fixture
def history(serve: Callable[..., Served], upstream: DemoUpstream) -> Served:
    """Give a gateway that has had five requests."""
    served = serve()
    make_history(served, upstream)
    return served


def test_it_shows_what_the_record_holds(open_page: OpenPage, history: Served) -> None:
    """Totals, models, how requests ended, attempts and the spread of times are those of the five requests."""
    page = open_page("/dashboard", url=history.url)
    expect(value(page, "requests")).to_have_text("5")
    expect(value(page, "success")).to_have_text("60.0 %")
    expect(page.locator("#tile-success-note")).to_have_text("1 rejected, 1 upstream cut")
    expect(value(page, "retries")).to_have_text("1")
    fast = page.locator("#models-rows tr", has_text="a/fast")
    expect(fast.locator("td").first).to_have_text("2")
    expect(page.locator("#attempts li", has_text="429").locator(".number")).to_have_text("1")
    expect(page.locator("#first-note")).to_contain_text("4 since the workers started")
    legend = page.locator("#chart-endings .u-legend")
    expect(legend).to_contain_text(re.compile(r"Upstream failed.*1.*Client left.*0.*Answered.*3", re.S))
    assert [] == page.evaluate("window.__ran")


def test_requests_can_be_filtered_and_looked_at(open_page: OpenPage, history: Served) -> None:
    """Each filter narrows the list, and a row opens on everything that is recorded."""
    page = open_page("/dashboard", url=history.url)
    rows = page.locator("#events-rows tr")
    expect(rows).to_have_count(5)
    page.select_option('[name="end_reason"]', "upstream_cut")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("b/broken")
    page.click(".when")
    expect(page.locator("#event")).to_contain_text("upstream_cut")
    cut = next(record for record in history.records if record.end_reason == "upstream_cut")
    expect(page.locator("#event")).to_contain_text(cut.record_id)
    page.keyboard.press("Escape")
    page.select_option('[name="end_reason"]', "")
    expect(rows).to_have_count(5)
    page.fill('[name="status"]', "40")
    page.fill('[name="status"]', "400")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("rejected")
    page.fill('[name="status"]', "")
    page.fill('[name="model"]', "no/such")
    expect(page.locator("#events-empty")).to_have_text("No request fits these filters.")
    expect(page.locator("#trouble")).to_be_hidden()


def test_pages_of_older_requests_can_be_asked_for(
    open_page: OpenPage, serve: Callable[..., Served], upstream: DemoUpstream
) -> None:
    """Nothing is listed twice, and the button goes when there is no more."""
    served = serve()
    upstream.play([{"text": "Ok"}], times=None)
    for _ in range(30):
        ask(served, stream=False)
    wait_until_written(served, 30)
    page = open_page("/dashboard", url=served.url)
    expect(page.locator("#events-rows tr")).to_have_count(25)
    page.click("#more")
    expect(page.locator("#events-rows tr")).to_have_count(30)
    expect(page.locator("#more")).to_be_hidden()


def test_streams_in_flight_and_new_requests_show_by_themselves(
    open_page: OpenPage, served: Served, upstream: DemoUpstream
) -> None:
    """An open stream is counted while it lasts; once it is recorded it is on top of the list, without a reload."""
    page = open_page("/dashboard", url=served.url)
    expect(page.locator("#events-empty")).to_contain_text("No request is recorded yet")
    expect(value(page, "flight")).to_have_text("0")
    upstream.play([{"text": "Hello"}, {"silence": True}])
    with served.ask(model="a/slow") as stream:
        assert stream.next_data()
        expect(value(page, "flight")).to_have_text("1")
    expect(value(page, "flight")).to_have_text("0")
    expect(page.locator("#events-rows tr").first).to_contain_text("client disconnected")
    page.check('[name="range"][value="hour"]', force=True)
    expect(page.locator("#chart-endings .u-legend")).to_contain_text(re.compile(r"Client left.*1", re.S))
    for span in ("week", "month"):
        page.check(f'[name="range"][value="{span}"]', force=True)
        expect(value(page, "requests")).to_have_text("1")
    expect(page.locator("#trouble")).to_be_hidden()


def test_the_operators_key_is_asked_for(open_page: OpenPage, serve: Callable[..., Served]) -> None:
    """A client's key does not do; who gives none is told, asked no more, and can sign in later."""
    served = serve(**KEYS, SLUICE_METADATA_KEY="operator-key")
    page = open_page("/dashboard", url=served.url)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.click("#sign-in-cancel")
    expect(page.locator("#trouble")).to_contain_text("Sign in to see the dashboard")
    expect(page.locator("#sign-in")).to_be_hidden()
    page.click("#trouble button")
    for key in ("ann-key", "operator-key"):
        page.fill("#sign-in-key", key)
        page.press("#sign-in-key", "Enter")
        if key == "ann-key":
            expect(page.locator("#sign-in-problem")).to_have_text("That key was not accepted.")
    expect(value(page, "requests")).to_have_text("0")
    expect(page.locator("#trouble")).to_be_hidden()
    page.click("#sign")
    expect(value(page, "requests")).to_have_text("–")
    expect(page.locator("#sign-in")).to_be_visible()
    assert [] == [address for address in [*asked, page.url] if "operator-key" in address]


def test_a_closed_dashboard_says_how_to_open_it(open_page: OpenPage, serve: Callable[..., Served]) -> None:
    """With keys and without a metadata key nobody may look."""
    page = open_page("/dashboard", url=serve(**KEYS).url)
    expect(page.locator("#trouble")).to_contain_text("The dashboard is closed")
    expect(page.locator("#trouble")).to_contain_text("SLUICE_METADATA_KEY")


def test_a_gateway_that_goes_and_comes_back(open_page: OpenPage, served: Served) -> None:
    """The page says that it is behind, keeps what it shows, and goes on by itself."""
    page = open_page("/dashboard", url=served.url)
    expect(value(page, "flight")).to_have_text("0")
    page.context.set_offline(True)
    expect(page.locator("#trouble")).to_contain_text("The gateway cannot be reached")
    expect(value(page, "flight")).to_have_text("0")
    page.context.set_offline(False)
    expect(page.locator("#trouble")).to_be_hidden()


@pytest.mark.parametrize("options", [{"color_scheme": "light"}, DARK_PHONE], ids=["light", "dark-phone"])
def test_axe_finds_nothing_serious(open_page: OpenPage, history: Served, options: dict[str, Any]) -> None:
    """Neither on the page with its charts and tables nor in a request's particulars; nor is it too wide."""
    page = open_page("/dashboard", url=history.url, **options)
    expect(page.locator("#events-rows tr")).to_have_count(5)
    assert [] == serious(page)
    assert not is_wider_than_its_window(page)
    page.click(".when >> nth=1")
    expect(page.locator("#event")).to_be_visible()
    assert [] == serious(page)
