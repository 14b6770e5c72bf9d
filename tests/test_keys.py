"""The key file: what it may hold, when it is read again, and what each key may ask for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.access import Key, KeyRing, apply_rules
from app.access import keyring as module
from app.access.key import read_file
from app.chat import make_request
from app.errors import ConfigurationError, GatewayError
from app.settings import Settings
from tests.conftest import QUESTION, Served
from tests.servers import GunicornGateway, open_stream, request, wait_until

ONE = '[[keys]]\nlabel = "one"\nkey = "first"\n'
TWO = '[[keys]]\nlabel = "two"\nkey = "second"\n'


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def replace(path: Path, text: str | bytes) -> None:
    """Put a new file in the place of the old one, as one should."""
    new = path.with_suffix(".new")
    new.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.replace(new, path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give a key file that holds one key."""
    found = tmp_path / "keys.toml"
    found.write_text(ONE)
    return found


@pytest.fixture
def always_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the pause between two looks away."""
    monkeypatch.setattr(module, "_LOOK", 0.0)


def test_a_full_entry_is_read() -> None:
    """Every field, and a second key while the first is replaced."""
    text = f"""
        [[keys]]
        label = "Büro Köln"
        key = "plain"
        sha256 = ["{digest("old").upper()}", "sha256:{digest("older")}"]
        models = ["openai/gpt-4o", "anthropic/*"]
        max_tokens = 1000
        budget = 12.5
        budget_period = "day"
        rate_limit = "1000 per day; 60/minute"
        streams = 5
    """
    (key,) = read_file(text.encode())

    assert ("Büro Köln", (digest("plain"), digest("old"), digest("older"))) == (key.label, key.hashes)
    assert (("openai/gpt-4o", "anthropic/*"), 1000, 12.5, "day", 5) == (
        key.models,
        key.max_tokens,
        key.budget,
        key.period,
        key.streams,
    )
    assert ["60 per 1 minute", "1000 per 1 day"] == [str(rate) for rate in key.rates or ()]


def test_a_plain_entry_has_no_rules() -> None:
    """What is not said is not limited, and a key is never kept."""
    (key,) = read_file(ONE.encode())

    assert Key("one", (digest("first"),)) == key
    assert "first" not in repr(key)


@pytest.mark.parametrize("data", [b"\xef\xbb\xbf" + ONE.encode(), ONE.replace("\n", "\r\n").encode()])
def test_what_windows_editors_write_is_read(data: bytes) -> None:
    """A byte order mark and CRLF line ends do not matter."""
    assert ["one"] == [key.label for key in read_file(data)]


def test_nobody_is_let_in_by_an_explicitly_empty_list(tmp_path: Path) -> None:
    """All keys are revoked, and the gate is shut, not open."""
    path = tmp_path / "keys.toml"
    path.write_text("keys = []")
    ring = KeyRing(path=str(path))

    assert ring.is_used
    assert ring.find(digest("")) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"expected \[\[keys\]\] tables, or `keys = \[\]`"),
        ("# nothing\n", r"expected \[\[keys\]\] tables"),
        ("[keys.one]\nkey = 'x'", r"expected \[\[keys\]\] tables"),
        ("keys = ['a']", r"expected \[\[keys\]\] tables"),
        ("keys = [", r"not TOML \(at "),
        (ONE + "secret = 'topsecret", r"not TOML \(at "),
        (b"\xff\xfe", "not UTF-8"),
        (ONE + "[[key]]\nlabel='x'", r"tables only, got 'key'"),
        ("[[keys]]\nkey = 'x'", r"number 1: label: expected 1 to 100 printable"),
        ("[[keys]]\nlabel = ''\nkey = 'x'", "label: expected"),
        ('[[keys]]\nlabel = "a\\nb"\nkey = "x"', "label: expected"),
        ("[[keys]]\nlabel = 7\nkey = 'x'", "label: expected"),
        (ONE + "[[keys]]\nlabel = 'b'", r"number 2 \(b\): expected key or sha256"),
        ("[[keys]]\nlabel = 'a'\nkey = ''", "is empty or holds"),
        ("[[keys]]\nlabel = 'a'\nkey = 'two words'", "a blank"),
        ("[[keys]]\nlabel = 'a'\nkey = 'sk-or-v1-x'", "OpenRouter's own keys"),
        ("[[keys]]\nlabel = 'a'\nsha256 = 'abc'", "not 64 hex digits"),
        ("[[keys]]\nlabel = 'a'\nkey = 5", "key: expected text or a list of texts"),
        (ONE + "models = []", "models: expected model ids"),
        (ONE + "models = ['a*b']", "models: expected model ids"),
        (ONE + "models = [1]", "models: expected text or a list"),
        (ONE + "max_tokens = 0", "max_tokens: expected a whole number from 1 up"),
        (ONE + "max_tokens = true", "max_tokens: expected a whole"),
        (ONE + "max_tokens = 1.5", "max_tokens: expected a whole"),
        (ONE + "streams = 0", "streams: expected a whole"),
        (ONE + "budget = -1", "budget: expected a number from 0 up"),
        (ONE + "budget = nan", "budget: expected a number"),
        (ONE + "budget = inf", "budget: expected a number"),
        (ONE + "budget = '5'", "budget: expected a number"),
        (ONE + "budget_period = 'week'", "budget_period: expected day or month"),
        (ONE + "rate_limit = 'often'", r"\(one\): rate_limit: expected rates like `60 per minute"),
        (ONE + "rate_limit = '0/minute'", "rate_limit: expected rates"),
        (ONE + "rate_limit = 5", "rate_limit: expected rates"),
        (ONE + "max_token = 5", r"\(one\): unknown field 'max_token'"),
    ],
)
def test_a_broken_file_stops_the_start_and_says_why(tmp_path: Path, text: str | bytes, words: str) -> None:
    """Which entry and field, what was expected, and never what a key is."""
    path = tmp_path / "keys.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigurationError, match=f"SLUICE_API_KEYS_FILE.*{words}") as caught:
        KeyRing(path=str(path))
    assert not [word for word in ("first", "topsecret", "two words") if word in caught.value.message]


@pytest.mark.parametrize(
    ("entries", "text", "words"),
    [
        ((), ONE + ONE.replace("first", "x"), "the label 'one' stands there twice"),
        (
            (),
            '[[keys]]\nlabel = "caf\u00e9"\nkey = "a"\n[[keys]]\nlabel = "cafe\u0301"\nkey = "b"',
            "stands there twice",
        ),
        (("one:other",), ONE, "the label 'one' stands there twice"),
        ((), ONE + TWO.replace("second", "first"), "'one' and 'two' have the same key"),
        (("two:first",), ONE, "'two' and 'one' have the same key"),
        ((f"a:sha256:{digest('x')}", "b:x"), ONE, "'a' and 'b' have the same key"),
    ],
)
def test_labels_and_keys_are_unique(tmp_path: Path, entries: tuple[str, ...], text: str, words: str) -> None:
    """Or it would be a matter of luck whose rules hold."""
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        KeyRing(entries, str(path))


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    """With the path and the system's reason."""
    with pytest.raises(ConfigurationError, match=r"SLUICE_API_KEYS_FILE: .*/none\.toml: No such file"):
        KeyRing(path=str(tmp_path / "none.toml"))
    with pytest.raises(ConfigurationError, match="directory"):
        KeyRing(path=str(tmp_path))


@pytest.mark.usefixtures("always_looks")
def test_a_changed_file_is_read_again(path: Path) -> None:
    """Keys come and go without a restart; those of SLUICE_API_KEYS stay."""
    ring = KeyRing(("fixed:third",), str(path))
    replace(path, TWO)

    found = [key.label if (key := ring.find(digest(name))) else None for name in ("first", "second", "third")]
    assert [None, "two", "fixed"] == found


@pytest.mark.usefixtures("always_looks")
@pytest.mark.parametrize("broken", ["", "[[keys]", ONE + ONE, None], ids=["empty", "cut", "twice", "missing"])
def test_a_broken_new_file_keeps_the_old_keys_until_it_is_mended(
    path: Path, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so once, and the ring for as long as it lasts."""
    ring = KeyRing(path=str(path))
    path.unlink() if broken is None else replace(path, broken)
    assert ["one"] * 3 == [getattr(ring.find(digest("first")), "label", None) for _ in range(3)]
    assert "SLUICE_API_KEYS_FILE" in str(ring.failure)
    assert 1 == caplog.text.count("the keys read before stay in use")

    replace(path, TWO)
    assert ring.find(digest("first")) is None
    assert ring.find(digest("second")) is not None
    assert ring.failure is None


@pytest.mark.usefixtures("always_looks")
def test_a_file_that_comes_back_as_it_was_is_no_failure_any_more(path: Path, tmp_path: Path) -> None:
    """A mount that was away for a moment."""
    ring = KeyRing(path=str(path))
    os.rename(path, tmp_path / "away")
    ring.refresh()
    assert ring.failure is not None
    os.rename(tmp_path / "away", path)
    ring.refresh()
    assert ring.failure is None


@pytest.mark.usefixtures("always_looks")
def test_a_file_that_may_not_be_read_keeps_the_old_keys(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And is read as soon as it may be, though nothing else of it has changed."""
    ring = KeyRing(path=str(path))
    replace(path, TWO)
    with monkeypatch.context() as patched:

        def refuse(self: Path) -> bytes:
            raise PermissionError(13, "Permission denied")

        patched.setattr(Path, "read_bytes", refuse)
        assert ring.find(digest("first")) is not None
        assert ring.find(digest("second")) is None
        assert f"SLUICE_API_KEYS_FILE: {path}: Permission denied" == ring.failure
    assert ring.find(digest("second")) is not None
    assert ring.failure is None
    assert 1 == caplog.text.count("Permission denied")


def test_the_file_is_looked_at_about_once_a_second(path: Path) -> None:
    """Not at every request."""
    ring = KeyRing(path=str(path))
    path.unlink()
    assert all(ring.find(digest("first")) for _ in range(100))
    assert ring.failure is None


def rules(**given: Any) -> Key:
    return Key("one", (digest("first"),), **given)


def ask(**body: Any) -> Any:
    return make_request({**QUESTION, **body}, Settings(open=True))


@pytest.mark.parametrize(
    "body",
    [
        {"model": "openai/gpt-4o"},
        {"model": "anthropic/claude-sonnet-4"},
        {"model": "anthropic/"},
        {"model": None, "models": ["openai/gpt-4o", "anthropic/x"]},
        {"model": "openai/gpt-4o", "models": ["anthropic/x"]},
        {"model": "openai/gpt-4o", "tools": [{"type": "function", "function": {"parameters": {"model": "x"}}}]},
        {"model": "openai/gpt-4o", "plugins": [{"id": "web", "max_results": 3}], "preset": None},
    ],
)
def test_allowed_models_pass(body: dict[str, Any]) -> None:
    """Exact ids, and whatever begins with what stands before the star."""
    apply_rules(rules(models=("openai/gpt-4o", "anthropic/*")), ask(**body))


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": "openai/gpt-4o-mini"}, "model"),
        ({"model": "openai/gpt-4o:online"}, "model"),
        ({"model": "OPENAI/gpt-4o"}, "model"),
        ({"model": " openai/gpt-4o"}, "model"),
        ({"model": "anthropic"}, "model"),
        ({"model": "@preset/cheap"}, "model"),
        ({"model": "openrouter/auto"}, "model"),
        ({"model": None}, "model"),
        ({"model": None, "models": []}, "model"),
        ({"model": "openai/gpt-4o", "models": ["anthropic/x", "x-ai/grok-4"]}, "models"),
        ({"model": "openai/gpt-4o", "models": [None]}, "models"),
        ({"model": "openai/gpt-4o", "models": [["anthropic/x"]]}, "models"),
        ({"model": "openai/gpt-4o", "preset": "mine"}, "preset"),
        ({"model": "openai/gpt-4o", "plugins": [{"id": "auto-router", "allowed_models": ["x/y"]}]}, "plugins"),
        ({"model": "openai/gpt-4o", "plugins": [{"id": "p", "panel": [{"model": "x/y"}]}]}, "plugins"),
        (
            {"model": "openai/gpt-4o", "tools": [{"type": "openrouter:advisor", "parameters": {"model": "x/y"}}]},
            "tools",
        ),
    ],
)
def test_any_other_way_to_a_model_is_refused(body: dict[str, Any], param: str) -> None:
    """The default model, fallbacks, presets, and the models that plugins and upstream's own tools call."""
    with pytest.raises(GatewayError, match=r"may not use .*; it may use openai/gpt-4o, anthropic/\*") as caught:
        apply_rules(rules(models=("openai/gpt-4o", "anthropic/*")), ask(**body))
    assert (403, "model_not_allowed", param) == (caught.value.status, caught.value.code, caught.value.param)


def test_the_default_model_passes_where_it_is_allowed() -> None:
    """A request that names none is held against what will be asked for."""
    apply_rules(rules(models=("nousresearch/*",)), ask(model=None))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({}, {"max_tokens": 100}),
        ({"max_tokens": None}, {"max_tokens": 100}),
        ({"max_tokens": 100}, {"max_tokens": 100}),
        ({"max_tokens": 7}, {"max_tokens": 7}),
        ({"max_completion_tokens": 99}, {"max_completion_tokens": 99}),
        ({"reasoning": {"effort": "high"}}, {"max_tokens": 100}),
        ({"reasoning": {"max_tokens": 50}}, {"max_tokens": 100}),
        ({"reasoning": "odd"}, {"max_tokens": 100}),
    ],
)
def test_a_cap_holds_what_is_sent_and_lowers_the_default(sent: dict[str, Any], expected: dict[str, int]) -> None:
    """No request of the key goes upstream without a limit."""
    asked = ask(**sent)
    apply_rules(rules(max_tokens=100), asked)

    found = {name: asked.body[name] for name in ("max_tokens", "max_completion_tokens") if name in asked.body}
    assert expected == found


def test_a_cap_above_the_default_leaves_the_default() -> None:
    """It is a cap, not a default of its own; without a default it is what is sent."""
    asked = ask()
    apply_rules(rules(max_tokens=10_000), asked)
    assert 4096 == asked.body["max_tokens"]

    asked = make_request(dict(QUESTION), Settings(open=True, default_max_tokens=0))
    apply_rules(rules(max_tokens=10_000), asked)
    assert 10_000 == asked.body["max_tokens"]


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ({"max_tokens": 101}, "max_tokens"),
        ({"max_tokens": 100.5}, "max_tokens"),
        ({"max_tokens": 10**400}, "max_tokens"),
        ({"max_tokens": "99"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 101}, "max_completion_tokens"),
        ({"reasoning": {"max_tokens": 101}}, "reasoning.max_tokens"),
        ({"max_tokens": float("nan")}, "max_tokens"),
    ],
)
def test_more_than_the_cap_is_refused(sent: dict[str, Any], param: str) -> None:
    """As OpenAI does when a model cannot give as much; cutting silently would surprise."""
    with pytest.raises(GatewayError, match="this key may ask for at most 100 tokens") as caught:
        apply_rules(rules(max_tokens=100), ask(**sent))
    assert (400, param) == (caught.value.status, caught.value.param)


def test_a_refusal_is_recorded_with_its_label(serve: Callable[..., Served], path: Path) -> None:
    """The record says who was refused what, and upstream hears nothing of it."""
    path.write_text(ONE + 'models = ["openai/*"]\n')
    served = serve(SLUICE_OPEN="off", SLUICE_API_KEYS_FILE=str(path))
    with served.ask(headers={"Authorization": "Bearer first"}) as answer:
        error = answer.json()["error"]
    assert (403, "permission_error", "model_not_allowed") == (answer.status, error["type"], error["code"])
    record = served.record()
    assert ("rejected", "one", 403, "model_not_allowed") == (
        record.end_reason,
        record.key_label,
        record.status,
        record.error_code,
    )


def test_the_model_list_is_what_the_key_may_use(serve: Callable[..., Served], path: Path) -> None:
    """A client that lets its user choose offers nothing that would be refused."""
    path.write_text(ONE + 'models = ["demo/e*"]\n' + TWO)
    served = serve(SLUICE_OPEN="off", SLUICE_API_KEYS_FILE=str(path))

    def get(place: str, key: str) -> tuple[int, Any]:
        with request("GET", f"{served.url}/v1/models{place}", headers={"Authorization": f"Bearer {key}"}) as answer:
            return answer.status, answer.json()

    ids = {key: [model["id"] for model in get("", key)[1]["data"]] for key in ("first", "second", "first")}
    assert ["demo/echo"] == ids["first"]
    assert {"demo/echo", "demo/story"} <= set(ids["second"])
    assert (200, 200) == (get("/demo/echo", "first")[0], get("/demo/story", "second")[0])
    status, body = get("/demo/story", "first")
    assert (403, "model_not_allowed") == (status, body["error"]["code"])


def test_a_key_is_revoked_in_every_worker_without_a_restart(path: Path, upstream: Any) -> None:
    """Two workers under gunicorn: within seconds none takes the old key, all take the new one, and a broken file
    changes nothing but what /v1/ready and the log say."""
    env = {
        "SLUICE_OPEN": "off",
        "SLUICE_API_KEYS_FILE": str(path),
        "OPENROUTER_BASE_URL": upstream.base_url,
        "WEB_CONCURRENCY": "2",
    }

    def statuses(key: str) -> set[int]:
        found = set()
        for _ in range(8):
            with request("GET", f"{gateway.url}/v1/models", headers={"Authorization": f"Bearer {key}"}) as answer:
                found.add(answer.status)
        return found

    def warns() -> bool:
        with request("GET", f"{gateway.url}/v1/ready") as answer:
            return "warnings" in answer.json()

    with GunicornGateway(env) as gateway:
        assert ({200}, {401}) == (statuses("first"), statuses("second"))
        replace(path, TWO)
        wait_until(lambda: statuses("first") == {401} and statuses("second") == {200}, what="the new key alone")
        # Eight requests may all have met the same worker.
        gateway.wait_for_log("(?s)(SLUICE_API_KEYS_FILE was read again[^\n]*.*){2}")
        replace(path, "[[keys]")
        wait_until(warns, what="the warning")
        gateway.wait_for_log("(?s)(SLUICE_API_KEYS_FILE: the file is not TOML[^\n]*stay in use.*){2}")
        assert {200} == statuses("second")
        with open_stream(gateway.chat_url, QUESTION, {"Authorization": "Bearer first"}) as answer:
            assert 401 == answer.status
