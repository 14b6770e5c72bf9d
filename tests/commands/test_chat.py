"""`sluice chat`: piped and on a terminal, through a gateway and directly."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import main
from app.commands import environment
from app.demo import DemoUpstream
from tests.clock import PATIENCE, granted
from tests.commands.runner import Terminal, run, visible
from tests.conftest import Served
from tests.servers import ROOT, wait_until

HOSTILE = "a\x1b[31mb\x1b]0;title\x07c\x9b2Jd\x90e\x7ff\u202eg\u2066h\u2028i\rj\x08k"
SHOWN = "a[31mb]0;titlec2Jdefghijk"


def test_an_answer_goes_to_standard_output(served: Served, upstream: DemoUpstream) -> None:
    """Through a gateway the text comes out as it is, with a line end and nothing else; the question is the argument."""
    upstream.play([{"text": ["Hello ", "there."]}])

    done = run("chat", "--url", served.url, "-m", "test/model", "-s", "Be kind.", "-p", "seed=7", "Hi", "you")

    assert (0, "Hello there.\n", "") == done
    assert {
        "model": "test/model",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi you"}],
        "seed": 7,
    }.items() <= upstream.requests[0].body.items()


def test_standard_input_is_the_question(served: Served, upstream: DemoUpstream) -> None:
    """What is piped in is asked, after the argument if there is one."""
    upstream.play([{"text": "ok"}], times=2)

    assert (0, "ok\n", "") == run("chat", "--url", served.url, given="Who?\n")
    assert (0, "ok\n", "") == run("chat", "--url", f"{served.url}/v1/", "Translate:", given="Who?\n")
    asked = [exchange.body["messages"][-1]["content"] for exchange in upstream.requests]
    assert ["Who?", "Translate:\n\nWho?"] == asked


def test_a_key_is_sent_to_the_gateway_alone(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """The gateway's key comes from SLUICE_KEY; the operator's own upstream key is not given away."""
    served = serve(SLUICE_OPEN=None, SLUICE_API_KEYS="ann:secret-key-1")
    env = {"OPENROUTER_API_KEY": "sk-or-v1-mine"}

    refused = run("chat", "--url", served.url, "Hi", env=env)
    done = run("chat", "--url", served.url, "Hi", env={**env, "SLUICE_KEY": "secret-key-1"})

    assert (1, "", "Error: Invalid API key (invalid_api_key)\n") == refused
    assert 0 == done.status
    assert ["ann"] == [record.key_label for record in served.records if record.key_label]


def test_pipeline_fields_reach_the_gateway(serve: Callable[..., Served], upstream: DemoUpstream) -> None:
    """A field of the pipeline works: live STM corrects what is printed."""
    served = serve(SLUICE_PIPELINE="on")
    upstream.play([{"text": ["I think it ", "works."]}])

    assert "It works.\n" == run("chat", "--url", served.url, "-p", "stm_mode=live", "Hi").out


def test_upstream_is_asked_directly(upstream: DemoUpstream) -> None:
    """Without --url the library's way is taken, with the operator's settings."""
    upstream.play([{"text": "direct"}])
    env = {"OPENROUTER_API_KEY": "sk-or-v1-mine", "OPENROUTER_BASE_URL": upstream.base_url}

    assert (0, "direct\n", "") == run("chat", "Hi", env=env)
    assert "Bearer sk-or-v1-mine" == upstream.requests[0].headers["Authorization"]


def test_the_demo_answers_without_anything() -> None:
    """--demo needs neither key nor gateway."""
    assert (0, "Hello, stream!\n", "") == run("chat", "--demo", "Hello, stream!")


@pytest.mark.parametrize(
    ("script", "out", "told", "way"),
    [
        ([{"text": ["half "]}, {"cut": "fin"}], "half \n", "upstream_cut", "gateway"),
        ([{"answer": {"status": 400, "json": {"error": {"message": "no \x1b[2J", "code": 400}}}}], "", "no ", "direct"),
    ],
)
def test_a_failure_is_told(served: Served, upstream: DemoUpstream, script: Any, out: str, told: str, way: str) -> None:
    """What came stays, the error goes to standard error without control characters, and the status is 1."""
    upstream.play(script)
    env = {"OPENROUTER_API_KEY": "sk-or-v1-mine", "OPENROUTER_BASE_URL": upstream.base_url, "SLUICE_RETRIES": "0"}

    done = run("chat", "Hi", *(["--url", served.url] if way == "gateway" else []), env=env)

    assert (1, out) == done[:2]
    assert done.err.startswith("Error: ")
    assert told in done.err
    assert "\x1b" not in done.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "expected a text as argument or on standard input, got nothing"),
        (("Hi",), "expected OPENROUTER_API_KEY, or a gateway with --url, or --demo; got none of them"),
        (("--url", "ftp://x", "Hi"), "expected an address such as http://127.0.0.1:8000"),
        (("--url", "http://127.0.0.1:1", "Hi"), "no answer from http://127.0.0.1:1: Connection refused"),
        (("--demo", "-p", "seed", "Hi"), "expected NAME=VALUE, got 'seed'"),
    ],
)
def test_what_cannot_be_asked_is_said(
    arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One clear line, and a status that is not 0."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    done = CliRunner().invoke(main, ["chat", *arguments])

    assert done.exit_code in (1, 2)
    assert told in done.stderr
    assert "" == done.stdout


def test_a_pipe_that_closes_early_is_no_fault(served: Served, upstream: DemoUpstream) -> None:
    """As with `| head -1`: no traceback."""
    upstream.play([{"text": ["line\n"] * 2000}])
    command = f"{sys.executable} -m app chat --url {served.url} Hi | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=5 * PATIENCE, cwd=ROOT)

    assert ("line\n", "") == (done.stdout, done.stderr)


def test_a_terminal_is_not_told_what_to_do(served: Served, upstream: DemoUpstream) -> None:
    """Escape sequences, C1 controls and bidirectional overrides lose what makes them act, however they are cut."""
    upstream.play([{"text": list(HOSTILE)}])

    with Terminal("chat", "--url", served.url, "Hi", env={"NO_COLOR": "1"}) as terminal:
        assert 0 == terminal.wait()

    assert SHOWN == terminal.text.split("\r\n")[0]
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e\u2066\u2028]", terminal.text)


def test_a_pipe_gets_the_text_as_it_is(served: Served, upstream: DemoUpstream) -> None:
    """Where no terminal is, nothing is taken out."""
    upstream.play([{"text": [HOSTILE.replace("\r", "")]}])

    assert HOSTILE.replace("\r", "") + "\n" == run("chat", "--url", served.url, "Hi").out


@pytest.mark.parametrize("no_color", [None, "1"])
def test_a_terminal_gets_colours_unless_it_says_no(
    served: Served, upstream: DemoUpstream, no_color: str | None
) -> None:
    """Reasoning and the figures at the end are dim, or plain under NO_COLOR."""
    upstream.play([{"reasoning": ["Hmm."]}, {"text": ["Yes."]}])

    with Terminal("chat", "--url", served.url, "Hi", env={"NO_COLOR": no_color}) as terminal:
        assert 0 == terminal.wait()

    assert (no_color is None) == ("\x1b[2m" in terminal.text)
    assert re.match(r"Hmm\.\n\nYes\.\n\[\S+ · first after \d+\.\d\d s.*\]\n", visible(terminal.text))


def test_tokens_are_shown_as_they_come(served: Served, upstream: DemoUpstream) -> None:
    """The first words are there while upstream holds the rest, and Ctrl-C cancels it within a second."""
    upstream.play([{"text": ["First "]}, {"silence": True}])

    with Terminal("chat", "--url", served.url, "Hi") as terminal:
        terminal.wait_for("First ")
        assert "open" == upstream.requests[0].outcome
        terminal.interrupt()
        left_at = time.monotonic()
        assert upstream.requests[0].closed.wait(PATIENCE)
        assert granted(left_at, upstream.requests[0].closed_at) < 1
        assert 130 == terminal.wait()

    assert "cancelled" in terminal.text
    assert "client_disconnected" == served.record().end_reason


def test_ctrl_c_cancels_upstream_directly(upstream: DemoUpstream) -> None:
    """The same without a gateway between."""
    upstream.play([{"text": ["First "]}, {"silence": True}])
    env = {"OPENROUTER_API_KEY": "sk-or-v1-mine", "OPENROUTER_BASE_URL": upstream.base_url}

    with Terminal("chat", "Hi", env=env) as terminal:
        terminal.wait_for("First ")
        terminal.interrupt()
        left_at = time.monotonic()
        assert upstream.requests[0].closed.wait(PATIENCE)
        assert granted(left_at, upstream.requests[0].closed_at) < 1
        assert 130 == terminal.wait()


def test_a_conversation_goes_on(served: Served, upstream: DemoUpstream) -> None:
    """Each question is asked after what was said before; a failed or cancelled turn ends neither; Ctrl-D does."""
    upstream.play([{"text": ["One."]}])
    upstream.play([{"text": ["Tw"]}, {"silence": True}])
    upstream.play([{"answer": {"status": 400, "json": {"error": {"message": "bad", "code": 400}}}}])
    upstream.play([{"text": ["Four."]}])

    with Terminal("chat", "--url", served.url) as terminal:
        terminal.wait_for("> ")
        terminal.type("first\n")
        terminal.wait_for(r"One\.[\s\S]*> ")
        terminal.type("second\n")
        terminal.wait_for("Tw")
        terminal.interrupt()
        terminal.wait_for(r"cancelled[\s\S]*> ")
        terminal.type("third\n")
        terminal.wait_for(r"Error: bad[\s\S]*> ")
        terminal.type("fourth\n")
        terminal.wait_for(r"Four\.[\s\S]*> ")
        terminal.type("\x04")
        assert 0 == terminal.wait()

    wait_until(lambda: len(upstream.requests) == 4)
    said = [(m["role"], m["content"]) for m in upstream.requests[3].body["messages"]]
    assert [
        ("user", "first"),
        ("assistant", "One."),
        ("user", "second"),
        ("assistant", "Tw"),
        ("user", "fourth"),
    ] == said


def test_a_correction_is_what_the_conversation_goes_on_from(
    serve: Callable[..., Served], upstream: DemoUpstream
) -> None:
    """In mode correct the raw text is printed, a note says so, and the next question follows the corrected one."""
    served = serve(SLUICE_PIPELINE="on")
    upstream.play([{"text": ["I think it ", "works."]}])
    upstream.play([{"text": ["Yes."]}])

    with Terminal("chat", "--url", served.url) as terminal:
        terminal.wait_for("> ")
        terminal.type("first\n")
        terminal.wait_for(r"I think it works\.[\s\S]*stm_mode=live[\s\S]*> ")
        terminal.type("second\n")
        terminal.wait_for(r"Yes\.[\s\S]*> ")
        terminal.type("\x04")
        terminal.wait()

    assert "It works." == upstream.requests[1].body["messages"][1]["content"]
