"""The playground, as a person at a browser meets it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask import Flask
from playwright.sync_api import Page, Route, expect

from app import create_blueprint
from app.demo import DemoUpstream
from app.demo.exchange import Exchange
from tests.clock import PATIENCE, granted
from tests.conftest import Served
from tests.pages.conftest import OpenPage, is_wider_than_its_window, serious, wait_for_the_end
from tests.servers import wait_until

DARK_PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True}


RICH = """# Title

Sure, I think `code` works.

```python
x = 1
```

| a | b |
|---|---|
| 1 | 2 |

- [x] done
"""


def say(page: Page, text: str) -> None:
    """Send a message by the keyboard."""
    page.fill("#message", text)
    page.press("#message", "Enter")


def ask(page: Page, upstream: DemoUpstream, *steps: Any, text: str = "Hello!") -> Exchange:
    """Send a message that upstream answers with *steps*; give upstream's side of it."""
    upstream.play(list(steps))
    seen = len(upstream.requests)
    say(page, text)
    return wait_until(lambda: next((e for e in upstream.requests[seen:] if e.method == "POST"), None), what="the call")


def test_the_first_token_is_shown_before_upstream_has_finished(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """Tokens are on the page while upstream still holds the stream open, with the time the first one took."""
    page = open_page()
    exchange = ask(page, upstream, {"text": "First words"}, {"silence": True})
    expect(page.locator(".answer .markdown")).to_have_text("First words")
    expect(page.locator(".answer .meter")).to_contain_text("first token")
    assert "open" == exchange.outcome


@pytest.mark.parametrize(("delivery", "shown"), [("stream", "Some words"), ("whole", "")])
def test_stop_closes_upstream_within_a_second(
    open_page: OpenPage, upstream: DemoUpstream, delivery: str, shown: str
) -> None:
    """What had come stays, and the page says who ended it."""
    page = open_page()
    page.check(f'[name="delivery"][value="{delivery}"]', force=True)
    exchange = ask(page, upstream, {"text": "Some words"}, {"silence": True})
    if shown:
        expect(page.locator(".answer .markdown")).to_have_text(shown)
    page.click("#stop")
    stopped_at = time.monotonic()
    assert exchange.closed.wait(PATIENCE)
    assert granted(stopped_at, exchange.closed_at) < 1
    if shown:
        expect(page.locator(".answer .markdown")).to_have_text(shown)
    expect(page.locator(".callout.stopped")).to_contain_text("You stopped this answer")


def test_an_error_before_the_first_token_is_told(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """The page says that nothing came, in upstream's words, and offers to try again, which works."""
    page = open_page()
    ask(page, upstream, {"answer": {"status": 402, "json": {"error": {"code": 402, "message": "No credit left"}}}})
    expect(page.locator(".callout.failed")).to_contain_text("No answer came")
    expect(page.locator(".callout.failed")).to_contain_text("No credit left")
    expect(page.locator(".callout.failed")).to_contain_text("The account has no credit")
    upstream.play([{"text": "Better now."}])
    page.click("text=Try again")
    expect(page.locator(".answer .markdown")).to_have_text("Better now.")
    expect(page.locator(".callout.failed")).to_have_count(0)


def test_an_error_after_the_first_token_is_told(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """The words that came stay, and the page says that the answer broke off and what that means."""
    page = open_page()
    ask(page, upstream, {"text": "Half of"}, {"cut": "fin"})
    expect(page.locator(".answer .markdown")).to_have_text("Half of")
    expect(page.locator(".callout.failed")).to_contain_text("The answer broke off")
    expect(page.locator(".callout.failed")).to_contain_text("upstream_cut")


def test_a_gateway_that_is_gone_is_told(
    open_page: OpenPage, serve: Callable[..., Served], upstream: DemoUpstream
) -> None:
    """Without a gateway there is no error object: the page finds words of its own."""
    served = serve()
    page = open_page(url=served.url)
    expect(page.locator("#model-note")).not_to_be_empty()
    page.context.set_offline(True)
    say(page, "Hello?")
    expect(page.locator(".callout.failed")).to_contain_text("The gateway cannot be reached")


@pytest.mark.parametrize("delivery", ["stream", "whole"])
def test_the_correction_and_the_decisions_are_shown(open_page: OpenPage, upstream: DemoUpstream, delivery: str) -> None:
    """The corrected text stands, what STM took out is listed, and the metadata reads as words."""
    page = open_page()
    page.check(f'[name="delivery"][value="{delivery}"]', force=True)
    ask(page, upstream, {"text": "Sure, I think this works.\n\nMaybe later."}, text="Does it?")
    expect(page.locator(".answer .markdown")).to_contain_text("This works.")
    wait_for_the_end(page)
    if delivery == "stream":
        expect(page.locator(".changes del")).to_have_text("Sure, I think this ")
        expect(page.locator(".changes ins")).to_have_text("This ")
        page.click("text=Show as streamed")
        expect(page.locator(".answer .markdown")).to_contain_text("Sure, I think this works.")
    page.click("text=What happened")
    told = page.locator(".particulars")
    expect(told).to_contain_text("adaptive")
    expect(told).to_contain_text("hedge_reducer, direct_mode")
    expect(told).to_contain_text("temperature")


def test_live_mode_is_live(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """The corrected words show while upstream goes on, under a badge that says so."""
    page = open_page()
    page.check('[name="stm_mode"][value="live"]', force=True)
    exchange = ask(page, upstream, {"text": "Sure, I think this works. And so it goes on"}, {"silence": True})
    expect(page.locator(".answer .markdown")).to_contain_text("This works. And so")
    expect(page.locator(".answer .badge")).to_have_text("STM live")
    assert "open" == exchange.outcome


def test_reasoning_tool_calls_and_pictures_stand_apart(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """They are no part of the answer's text."""
    page = open_page()
    call = {"name": "lookup", "arguments": '{"word": "sluice"}'}
    steps: list[Any] = [{"reasoning": "I look it up."}, {"text": "One moment."}, {"tool_call": call}, {"image": 64}]
    ask(page, upstream, *steps, {"annotations": 2})
    wait_for_the_end(page)
    expect(page.locator(".answer .markdown")).to_have_text("One moment.")
    expect(page.locator(".answer .reasoning")).to_contain_text("I look it up.")
    expect(page.locator(".answer .tool h3")).to_have_text("Tool call lookup")
    expect(page.locator(".answer .tool pre")).to_contain_text('"word": "sluice"')
    expect(page.locator(".answer .images img")).to_have_count(1)
    expect(page.locator(".answer .sources a")).to_have_count(2)


def test_every_option_reaches_the_gateway(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """Strategy, stages, sampling, stop, further fields and the system message change what upstream is asked."""
    page = open_page()
    page.fill('[name="system"]', "Be brief.")
    page.select_option('[name="strategy"]', "precise")
    page.check('[name="parseltongue"]')
    page.fill('[name="parseltongue_triggers"]', "lock, water")
    page.select_option('[name="parseltongue_technique"]', "mixedcase")
    page.select_option('[name="parseltongue_intensity"]', "heavy")
    page.fill('[name="parseltongue_seed"]', "7")
    page.fill('[name="top_p"]', "0.5")
    page.fill('[name="max_tokens"]', "99")
    page.fill('[name="stop"]', "END\nSTOP")
    page.fill('[name="further"]', '{"reasoning": {"effort": "low"}}')
    page.fill("#model", "some/model")
    body = ask(page, upstream, {"text": "Done."}, text="The lock").body
    assert {"role": "system", "content": "Be brief."} == body["messages"][0]
    assert re.fullmatch("The (?!lock)[lL][oO][cC][kK]", body["messages"][1]["content"])
    assert ("some/model", 0.2, 0.5, 99) == tuple(body[n] for n in ("model", "temperature", "top_p", "max_tokens"))
    assert ["END", "STOP"] == body["stop"]
    assert {"effort": "low"} == body["reasoning"]


def test_further_fields_that_are_no_json_are_told(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """Nothing is sent, and what was typed stays."""
    page = open_page()
    page.fill('[name="further"]', "{reasoning")
    say(page, "Hello!")
    expect(page.locator("#problem")).to_contain_text("Further fields: expected a JSON object")
    expect(page.locator("#message")).to_have_value("Hello!")


def test_a_conversation_goes_on_is_kept_and_can_be_left(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """The next request has what was said, corrected; a reload keeps it; a new one starts empty."""
    page = open_page()
    ask(page, upstream, {"text": "Sure, I think it works."}, text="Does it?")
    wait_for_the_end(page)
    second = ask(page, upstream, {"text": "Yes."}, text="Really?")
    wait_for_the_end(page, answers=2)
    said = [("user", "Does it?"), ("assistant", "It works."), ("user", "Really?")]
    assert said == [(m["role"], m["content"]) for m in second.body["messages"]]
    page.reload()
    wait_for_the_end(page, answers=2)
    expect(page.locator(".answer .markdown").nth(1)).to_have_text("Yes.")
    page.click("#new")
    expect(page.locator(".turn")).to_have_count(0)
    assert 1 == len(ask(page, upstream, {"text": "Hi."}).body["messages"])
    wait_for_the_end(page)
    page.click("text=Does it?")
    expect(page.locator(".turn")).to_have_count(4)
    upstream.play([{"text": "Yes, really."}])
    page.locator(".answer").nth(1).get_by_text("Regenerate").click()
    expect(page.locator(".answer .markdown").nth(1)).to_have_text("Yes, really.")
    assert said == [(m["role"], m["content"]) for m in upstream.requests[-1].body["messages"]]


def test_a_page_that_is_left_in_the_middle_keeps_what_had_come(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """A reload ends the answer upstream, and shows it as far as it came."""
    page = open_page()
    exchange = ask(page, upstream, {"text": "Some words"}, {"silence": True})
    expect(page.locator(".answer .markdown")).to_have_text("Some words")
    page.reload()
    left_at = time.monotonic()
    assert exchange.closed.wait(PATIENCE)
    assert granted(left_at, exchange.closed_at) < 1
    expect(page.locator(".answer .markdown")).to_have_text("Some words")
    expect(page.locator(".callout.stopped")).to_be_visible()


def test_a_blueprint_of_a_host_has_the_pages_below_its_prefix(
    open_page: OpenPage, upstream: DemoUpstream, tmp_path: Path
) -> None:
    """Every address is relative: the page asks the gateway it came from."""
    settings = {"SLUICE_OPEN": "on", "OPENROUTER_API_KEY": "k", "OPENROUTER_BASE_URL": upstream.base_url}
    app = Flask("host", static_folder=None)
    settings["SLUICE_DATABASE_URL"] = f"sqlite:///{tmp_path}/records.db"
    app.register_blueprint(create_blueprint(settings, url_prefix="/ai", extras=["pages", "metrics"]))
    served = Served(app, [])
    try:
        page = open_page("/ai/", url=served.url)
        ask(page, upstream, {"text": "From below."})
        expect(page.locator(".answer .markdown")).to_have_text("From below.")
        page.click("text=Dashboard")
        expect(page.locator("#events-rows tr")).to_have_count(1)
        expect(page.locator("#trouble")).to_be_hidden()
    finally:
        served.stop()


def test_a_rating_is_sent_and_shown(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """The gateway takes it for this completion, whether AutoTune detected a context or a strategy was fixed."""
    page = open_page()
    for number, strategy in enumerate(("adaptive", "creative")):
        page.select_option('[name="strategy"]', strategy)
        ask(page, upstream, {"text": "Ok."}, text="Write a Python function to sort a list and debug it")
        wait_for_the_end(page, answers=number + 1)
        good = page.locator(".answer").nth(number).locator(".thumb.up")
        # The answer's record may be on its way still: the page asks again then.
        with page.expect_response(lambda r: r.url.endswith("/v1/feedback") and r.status != 404) as answered:
            good.click()
        assert 200 == answered.value.status
        assert {"rating": 1, "context_type": "code"} == {
            name: answered.value.request.post_data_json[name] for name in ("rating", "context_type")
        }
        expect(good).to_have_attribute("aria-pressed", "true")


PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<svg onload=alert(3)><script>alert(4)</script></svg>",
    "[link](javascript:alert(5))",
    "[link](JaVaScRiPt&colon;alert(6))",
    "[link](data:text/html;base64,PHNjcmlwdD5hbGVydCg3KTwvc2NyaXB0Pg==)",
    '![picture](https://tracker.invalid/x.png "title")',
    '[x](https://example.invalid/" onmouseover="alert(8))',
    "<iframe srcdoc='<script>parent.alert(9)</script>'></iframe>",
    "<math><mtext><table><mglyph><style><img src onerror=alert(10)></style></mglyph></table></mtext></math>",
    "```html\n<script>alert(11)</script>\n```",
    '```"><img src=x onerror=alert(12)>\nx\n```',
    "<form action=https://evil.invalid><button id=turns>x</button></form>",
    '<a href="vbscript:alert(13)" style="position:fixed;inset:0">x</a>',
    "<https://example.invalid/?<script>alert(14)</script>>",
    "| <img src=x onerror=alert(15)> | b |\n|---|---|\n| <script>alert(16)</script> | [x](javascript:alert(17)) |",
]


def test_nothing_that_a_model_writes_ever_runs(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """Markup is shown as text wherever it stands, nothing is fetched for it, and the policy has nothing to stop."""
    page = open_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    bad = "<img src=x onerror=alert(20)>"
    answer = "\n\n".join(PAYLOADS)
    pieces = [answer[place : place + 7] for place in range(0, len(answer), 7)]
    call = {"name": bad, "arguments": json.dumps({"x": bad})}
    ask(page, upstream, {"reasoning": bad}, {"text": pieces}, {"tool_call": call}, {"finish": bad}, text=bad)
    wait_for_the_end(page)
    error = {"code": bad, "message": bad, "metadata": {"raw": bad}}
    ask(page, upstream, {"text": "x"}, {"error": {"form": "bare", **error}}, text="Again")
    wait_for_the_end(page, answers=2)
    expect(page.locator(".callout.failed")).to_contain_text(bad)
    for account in page.locator(".happened summary").all():
        account.click()
    assert [] == page.evaluate("window.__ran")
    made = "#turns :is(script, iframe, svg, math, style, form, object, embed, img), #turns [onerror], #turns [style]"
    expect(page.locator(made)).to_have_count(0)
    links = page.eval_on_selector_all("#turns a[href]", "links => links.map((link) => link.protocol)")
    assert set(links) <= {"http:", "https:", "mailto:"}
    assert {page.url} == {re.sub("(?<=[0-9])/.*", "/", address) for address in asked}
    expect(page.locator("#turns")).to_contain_text("<script>alert(1)</script>")


_COUNT = """() => {
    window.__frames = 0;
    const note = () => { window.__frames += 1; requestAnimationFrame(note); };
    requestAnimationFrame(note);
    window.__made = [];
    new MutationObserver((changes) => {
        window.__made.push(changes.reduce((sum, { addedNodes }) => sum + addedNodes.length, 0));
    }).observe(document.getElementById("turns"), { childList: true, subtree: true });
}"""
"""Counts the frames, and what each of them adds to the conversation."""


class Meter(NamedTuple):
    """How far an answer has come, and what that took: frames, and milliseconds of the page's thread on a processor."""

    tokens: int
    frames: int
    busy: float


def meters(page: Page, tokens: int) -> Iterator[Meter]:
    """Look at the meter of the page's answer again and again until it shows so many tokens."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    look = "() => [document.querySelector('.answer .meter').textContent, window.__frames]"
    shown = 0
    end = time.monotonic() + 5 * PATIENCE
    while shown < tokens and time.monotonic() < end:
        page.wait_for_timeout(50)
        text, frames = page.evaluate(look)
        used = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
        found = re.search("([0-9,]+) tokens( |$)", text)
        shown = int(found[1].replace(",", "")) if found else 0
        yield Meter(shown, frames, used["ThreadTime"] * 1000)


def test_ten_thousand_tokens_do_not_slow_the_page(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """A frame near the end costs as much as one near the beginning, and finished blocks are not touched again."""
    page = open_page()
    tokens = [f"{'word'}{n}{'. ' if n % 40 else '.' + chr(10) * 2}" for n in range(10_000)]
    page.evaluate(_COUNT)
    page.uncheck('[value="hedge_reducer"]')
    page.uncheck('[value="direct_mode"]')
    bursts = [step for n in range(0, 10_000, 100) for step in ({"text": tokens[n : n + 100]}, {"wait": 0.03})]
    ask(page, upstream, *bursts)
    seen = list(meters(page, 10_000))
    wait_for_the_end(page)
    expect(page.locator(".answer .markdown")).to_contain_text("word9999.")
    made = page.evaluate("window.__made")

    def cost(first: Meter, last: Meter) -> float:
        """Give the milliseconds of a frame."""
        return (last.busy - first.busy) / max(last.frames - first.frames, 1)

    third, two_thirds = (next(one for one in seen if one.tokens >= part) for part in (3333, 6666))
    early, late = cost(seen[0], third), cost(two_thirds, seen[-1])
    assert late < 2 * early + 25, f"a frame took {early:.0f} ms at first, {late:.0f} ms in the end"
    assert sum(made) < 500 + 10 * len(made), "of 250 blocks only the last ones are made anew"


def test_the_keyboard_is_enough(open_page: OpenPage, upstream: DemoUpstream) -> None:
    """Skip link, message, Enter, Stop, the drawer on a phone: all without a pointer."""
    page = open_page(viewport={"width": 390, "height": 844})
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.type("Hello!")
    upstream.play([{"text": "Some words"}, {"silence": True}])
    page.keyboard.press("Enter")
    expect(page.locator(".answer .markdown")).to_have_text("Some words")
    for _ in range(4):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "stop":
            break
    page.keyboard.press("Enter")
    expect(page.locator(".callout.stopped")).to_be_visible()
    page.focus('[data-drawer="settings"]')
    page.keyboard.press("Enter")
    expect(page.locator("#settings button:focus")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator("#settings")).to_be_hidden()
    assert "settings" == page.evaluate("document.activeElement.dataset.drawer")


@pytest.mark.parametrize("options", [{"color_scheme": "light"}, DARK_PHONE], ids=["light", "dark-phone"])
def test_axe_finds_nothing_serious(open_page: OpenPage, upstream: DemoUpstream, options: dict[str, Any]) -> None:
    """Neither in the empty page nor in one with every kind of content, dialog and panel open; nor is it too wide."""
    page = open_page(**options)
    assert [] == serious(page)
    ask(page, upstream, {"reasoning": "Why?"}, {"text": RICH}, {"tool_call": {}})
    wait_for_the_end(page)
    page.click("text=What happened")
    ask(page, upstream, {"text": "Half"}, {"cut": "fin"})
    wait_for_the_end(page, answers=2)
    assert [] == serious(page)
    assert not is_wider_than_its_window(page)
    page.locator(".answer").nth(1).get_by_text("Copy as code").click()
    assert [] == serious(page)
    page.click("text=Close >> visible=true")
    if "viewport" in options:
        page.click('[data-drawer="settings"]')
        assert [] == serious(page)
        assert not is_wider_than_its_window(page)


def test_a_late_refusal_of_an_earlier_key_does_not_ask_again(
    open_page: OpenPage, serve: Callable[..., Served], upstream: DemoUpstream
) -> None:
    """Two calls went out with a wrong key: the one that hears of it last takes the key that was given meanwhile."""
    served = serve(SLUICE_OPEN="off", SLUICE_API_KEYS="ann:right-key")
    page = open_page(url=served.url)
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if "wrong" in route.request.headers["authorization"] and not held:
            held.append(route)
        else:
            route.continue_()

    page.route("**/v1/models", hold_the_first)
    for key in ("wrong-key", "right-key"):
        page.fill("#sign-in-key", key)
        page.press("#sign-in-key", "Enter")
        if key == "wrong-key":
            expect(page.locator("#sign-in-problem")).not_to_be_empty()
    expect(page.locator("#model-note")).not_to_be_empty()
    assert held
    with page.expect_response(lambda response: response.url.endswith("/v1/models") and response.status == 200):
        held[0].continue_()
    expect(page.locator("#sign-in")).to_be_hidden()


def test_a_key_is_asked_for_and_kept_to_the_tab(
    open_page: OpenPage, serve: Callable[..., Served], upstream: DemoUpstream
) -> None:
    """A wrong key is told, the right one opens the page, and it shows up in no address and no other tab."""
    served = serve(SLUICE_OPEN="off", SLUICE_API_KEYS="ann:rïght-key🔑")
    page = open_page(url=served.url)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.fill("#sign-in-key", "wrong-key")
    page.press("#sign-in-key", "Enter")
    expect(page.locator("#sign-in-problem")).to_have_text("That key was not accepted.")
    page.fill("#sign-in-key", "rïght-key🔑")
    page.press("#sign-in-key", "Enter")
    expect(page.locator("#sign")).to_have_text("Sign out")
    ask(page, upstream, {"text": "Welcome."})
    expect(page.locator(".answer .markdown")).to_have_text("Welcome.")
    assert ("ann", "completed") == (served.record().key_label, served.record().end_reason)
    assert [] == [address for address in [*asked, page.url] if "key" in address]
    assert "rïght-key🔑" == page.evaluate("sessionStorage.getItem('sluice.key')")
    assert 0 == page.evaluate("localStorage.length")
    page.click("#sign")
    expect(page.locator("#sign")).to_have_text("Sign in")
    assert page.evaluate("sessionStorage.getItem('sluice.key')") is None
