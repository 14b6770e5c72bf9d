"""The page's request as a program: each asks upstream for exactly what the page asked it for."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.demo import DemoUpstream
from tests.clients.environments import NODE, environment
from tests.clock import PATIENCE
from tests.conftest import Served
from tests.pages.conftest import OpenPage, wait_for_the_end
from tests.servers import clean_environ

HARD = 'It\'s "quoted" $HOME `date` \\n 50% ünïcödé 🙂 </script>\nsecond line\t!'


def command(language: str, snippet: str, folder: Path) -> list[str]:
    """Give what runs *snippet*."""
    if language == "curl":
        return ["bash", "-c", snippet]
    if language == "python":
        return [str(environment("openai3") / "bin" / "python"), "-c", snippet]
    home = environment(NODE)
    (folder / "node_modules").symlink_to(home / "node_modules")
    (folder / "snippet.mjs").write_text(snippet, encoding="utf-8")
    return ["node", str(folder / "snippet.mjs")]


@pytest.mark.parametrize("delivery", ["stream", "whole"])
def test_the_snippets_ask_what_the_page_asked(
    open_page: OpenPage, serve: Callable[..., Served], upstream: DemoUpstream, tmp_path: Path, delivery: str
) -> None:
    """Run as they are, with a key from the environment, they get the same answer; no secret is in them."""
    served = serve(SLUICE_OPEN="off", SLUICE_API_KEYS="ann:right-key", SLUICE_PIPELINE="on", SLUICE_AUTOTUNE="off")
    page = open_page(url=served.url)
    page.fill("#sign-in-key", "right-key")
    page.press("#sign-in-key", "Enter")
    page.fill('[name="system"]', HARD)
    page.fill('[name="temperature"]', "0.25")
    page.fill('[name="top_k"]', "7")
    page.fill('[name="further"]', '{"provider": {"order": ["a"], "allow_fallbacks": false}, "user": null}')
    page.uncheck('[value="hedge_reducer"]')
    page.check(f'[name="delivery"][value="{delivery}"]', force=True)
    upstream.play([{"text": "Sure, I think so."}], times=None)
    page.fill("#message", HARD)
    page.press("#message", "Enter")
    wait_for_the_end(page)
    asked = _last(upstream)
    page.click("text=Copy as code >> visible=true")
    for language in ("curl", "python", "node"):
        page.check(f'[name="language"][value="{language}"]', force=True)
        snippet = page.locator("#snippet code").text_content() or ""
        assert "right-key" not in snippet
        env = clean_environ({"SLUICE_KEY": "right-key", "no_proxy": "127.0.0.1"})
        done = subprocess.run(
            command(language, snippet, tmp_path), env=env, capture_output=True, text=True, timeout=5 * PATIENCE
        )
        assert (0, "") == (done.returncode, done.stderr if language != "curl" else "")
        assert "think so" in done.stdout if language != "curl" else "[DONE]" in done.stdout or "think so" in done.stdout
        assert asked == _last(upstream), language


def _last(upstream: DemoUpstream) -> Any:
    return upstream.requests[-1].body
