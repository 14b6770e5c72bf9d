"""Settings: read from text and typed values, checked at start, told in one clear line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from traceback import format_exception
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import create_app
from app.errors import ConfigurationError
from app.settings import Settings

SPECS = fields(Settings)
NUMBERS = [spec for spec in SPECS if spec.type in ("int", "float")]


def test_the_defaults_are_the_documented_ones() -> None:
    """An empty environment gives the shipped values."""
    found = Settings.from_env({})
    assert (
        found.heartbeat,
        found.connect_timeout,
        found.first_token_timeout,
        found.idle_timeout,
        found.deadline,
    ) == (10, 5, 120, 60, 900)
    assert (
        found.retries,
        found.retry_backoff,
        found.retry_after_max,
        found.stream_errors,
        found.commit_after,
    ) == (3, 1, 30, "event", 5)
    assert (
        found.max_streams,
        found.max_body_bytes,
        found.max_event_bytes,
        found.client_stall_timeout,
    ) == (1000, 33_554_432, 16_777_216, 60)
    assert (
        found.default_model,
        found.default_max_tokens,
        found.pipeline,
        found.autotune,
    ) == ("nousresearch/hermes-4-70b", 4096, True, True)
    assert (
        found.strategy,
        found.stm_modules,
        found.stm_mode,
    ) == ("adaptive", ("hedge_reducer", "direct_mode"), "correct")
    assert (
        found.parseltongue,
        found.parseltongue_technique,
        found.parseltongue_intensity,
        found.parseltongue_triggers,
    ) == (False, "leetspeak", "medium", ())
    assert (
        found.openrouter_base_url,
        found.openrouter_api_key,
        found.open,
    ) == ("https://openrouter.ai/api/v1", None, False)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_setting_says_what_it_is(spec: Any) -> None:
    """Each has a full name of its own, a meaning, and bounds if it is a number."""
    metadata = spec.metadata
    assert metadata["name"].startswith(("SLUICE_", "OPENROUTER_"))
    assert metadata["name"].removeprefix("SLUICE_").lower() == spec.name
    assert metadata["meaning"]
    assert (spec.type in ("int", "float")) == (metadata["low"] is not None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on", True),
        ("off", False),
        ("True", True),
        ("FALSE", False),
        ("1", True),
        ("0", False),
        (" yes ", True),
        ("no", False),
    ],
)
def test_switches_are_read_in_the_usual_words(text: str, expected: bool) -> None:
    """On and off, in every common spelling, typed ones too."""
    assert expected is Settings.from_mapping({"SLUICE_PARSELTONGUE": text}).parseltongue
    assert expected is Settings.from_mapping({"SLUICE_PARSELTONGUE": expected}).parseltongue


def test_lists_are_comma_separated_or_typed() -> None:
    """Blanks around and between items do not count, sequences are taken as they are."""
    found = Settings.from_mapping(
        {"SLUICE_ALLOWED_HOSTS": " a , ,b,", "SLUICE_API_KEYS": ["x:1", "y:2"], "SLUICE_STM_MODULES": ("z",)}
    )
    assert (found.allowed_hosts, found.api_keys, found.stm_modules) == (("a", "b"), ("x:1", "y:2"), ("z",))


def test_an_empty_list_of_modules_means_none_and_elsewhere_empty_means_unset() -> None:
    """Only where none is a choice does empty text differ from no text; blanks are empty."""
    found = Settings.from_env(
        {"SLUICE_STM_MODULES": "", "SLUICE_DEFAULT_MODEL": "", "OPENROUTER_API_KEY": "  ", "SLUICE_RETRIES": " "}
    )
    assert (
        found.stm_modules,
        found.default_model,
        found.openrouter_api_key,
        found.retries,
    ) == ((), "nousresearch/hermes-4-70b", None, 3)


def test_later_mappings_win() -> None:
    """The Flask config is given after the environment."""
    first, second = {"SLUICE_RETRIES": "1", "SLUICE_HEARTBEAT": "2", "PATH": "/x"}, {"SLUICE_RETRIES": 5, "DEBUG": True}
    found = Settings.from_mapping(first, second)
    assert (found.retries, found.heartbeat) == (5, 2.0)


@pytest.mark.parametrize("name", ["SLUICE_HARTBEAT", "SLUICE_", "SLUICE_SERVICES", "SLUICE_PORTS", "SLUICE_WORKER"])
def test_unknown_names_stop_the_start(name: str) -> None:
    """A misspelt setting is not silently without effect."""
    with pytest.raises(ConfigurationError, match=f"unknown setting {name}"):
        Settings.from_env({name: "1"})


@pytest.mark.parametrize(
    "name",
    [
        "SLUICE_WORKER_CLASS",
        "SLUICE_SERVICE_HOST",
        "SLUICE_SERVICE_PORT_HTTP",
        "SLUICE_PORT",
        "SLUICE_PORT_8000_TCP_ADDR",
        "OPENROUTER_SITE",
        "OTHER",
    ],
)
def test_names_that_others_put_there_are_let_pass(name: str) -> None:
    """What gunicorn's file reads and Kubernetes injects is no mistake."""
    assert Settings() == Settings.from_env({name: "tcp://10.0.0.1:80"})


@pytest.mark.parametrize("spec", NUMBERS, ids=lambda spec: spec.name)
def test_numbers_have_bounds(spec: Any) -> None:
    """The bounds themselves are allowed, what is beyond is refused with the setting's name."""
    name, low, high = spec.metadata["name"], spec.metadata["low"], spec.metadata["high"]
    assert low == getattr(Settings.from_env({name: str(low)}), spec.name)
    beyond = [low - 1, *([high + 1] if high != float("inf") else [])]
    for value in beyond:
        with pytest.raises(ConfigurationError, match=f"^{name}: expected"):
            Settings.from_env({name: str(value)})


@pytest.mark.parametrize("value", ["many", "nan", "inf", "-inf", "1.5x", [], {}, 10**400, "1" * 5000])
@pytest.mark.parametrize("spec", NUMBERS, ids=lambda spec: spec.name)
def test_what_is_no_number_is_refused(spec: Any, value: Any) -> None:
    """Words, infinities and objects are told apart from numbers, in one line."""
    name = spec.metadata["name"]
    with pytest.raises(ConfigurationError, match=f"^{name}: ") as caught:
        Settings.from_mapping({name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLUICE_RETRIES", "1.5"),
        ("SLUICE_OPEN", "maybe"),
        ("SLUICE_OPEN", 2),
        ("SLUICE_STREAM_ERRORS", "loud"),
        ("SLUICE_UPSTREAM_PARAMS", "OpenAI"),
        ("OPENROUTER_BASE_URL", "openrouter.ai"),
        ("OPENROUTER_BASE_URL", "ftp://openrouter.ai"),
        ("OPENROUTER_BASE_URL", "https://x.org/v1?key=1"),
        ("OPENROUTER_BASE_URL", "https:///v1"),
        ("OPENROUTER_BASE_URL", "https://a b/v1"),
        ("OPENROUTER_API_KEY", "schlüssel"),
        ("OPENROUTER_API_KEY", "a\nb"),
        ("SLUICE_TITLE", "Grüße"),
        ("SLUICE_REFERER", "a\r\nX: y"),
        ("SLUICE_API_KEYS", 5),
        ("SLUICE_CA_BUNDLE", "/nowhere/at/all.pem"),
    ],
)
def test_bad_values_stop_the_start(name: str, value: Any) -> None:
    """Each is refused by its name."""
    with pytest.raises(ConfigurationError, match=f"^{name}: "):
        Settings.from_mapping({name: value})


@pytest.mark.parametrize("name", [spec.metadata["name"] for spec in SPECS if spec.metadata.get("secret")])
def test_secrets_are_not_shown(name: str) -> None:
    """Neither repr nor an error message holds a secret."""
    values: dict[str, Any] = {name: "http://user:hunter2@proxy"}
    assert "hunter2" not in repr(Settings.from_mapping(values))
    typed: Any = {spec.metadata["name"]: spec.name for spec in SPECS}
    with pytest.raises(ConfigurationError, match=f"^{name}: ") as caught:
        Settings(**{typed[name]: [b"hunter2"]})
    assert "hunter2" not in str(caught.value)


def test_every_setting_that_may_hold_an_address_is_a_secret() -> None:
    """Any of them can have a user and a password in it."""
    shown = repr(Settings())
    assert [] == [spec.name for spec in SPECS if spec.metadata.get("url") and not spec.metadata.get("secret")]
    assert [] == [spec.name for spec in SPECS if "://" in spec.metadata["meaning"] and f"{spec.name}=" in shown]
    assert "://" not in shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENROUTER_BASE_URL", "https://u:hunter2@host:port/v1"),
        ("OPENROUTER_BASE_URL", "https://u:hunter2@host:99999/v1"),
        ("OPENROUTER_BASE_URL", "https://u:hunter2@/v1"),
        ("OPENROUTER_BASE_URL", "https://u:hunter2/x@host/v1"),
        ("OPENROUTER_BASE_URL", "https://u:[hunter2@host/v1"),
        ("OPENROUTER_BASE_URL", "https://u:hunter2@*.host/v1"),
        ("SLUICE_UPSTREAM_PROXY", "http://u:hunter2/x@host:3128"),
        ("SLUICE_UPSTREAM_PROXY", "http://u:[hunter2@host"),
        ("SLUICE_UPSTREAM_PROXY", "socks5://u:hunter2@host"),
        ("SLUICE_DATABASE_URL", "postgresql://u:hunter2@host:port/db"),
        ("SLUICE_DATABASE_URL", "postgresql://u:x@hunter2@host:1:2/db"),
        ("SLUICE_DATABASE_URL", "mysql://u:hunter2@host/db"),
        ("SLUICE_LIMIT_STORAGE", "redis://u:hunter2/x@host"),
        ("SLUICE_LIMIT_STORAGE", "redis://u:hunter2@host?hunter2=1"),
        ("SLUICE_LIMIT_STORAGE", "memcached://u:hunter2@host"),
    ],
)
def test_an_address_that_cannot_be_used_stops_the_start_untold(name: str, value: str, tmp_path: Path) -> None:
    """The setting is named, and no line of the traceback repeats a password: not by us, nor by any library."""
    with pytest.raises(ConfigurationError, match=f"^{name}: ") as caught:
        create_app({"SLUICE_OPEN": "on", "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/records.db", name: value})
    assert "hunter2" not in "".join(format_exception(caught.value))


@pytest.mark.parametrize(
    "values",
    [
        {"retries": "3"},
        {"retries": True},
        {"retries": 1.5},
        {"retries": None},
        {"retries": 10**400},
        {"heartbeat": "x"},
        {"heartbeat": float("nan")},
        {"idle_timeout": float("inf")},
        {"open": "off"},
        {"open": 1},
        {"api_keys": "label:key"},
        {"api_keys": ["label:key"]},
        {"api_keys": (5,)},
        {"strategy": 5},
        {"default_model": None},
        {"openrouter_api_key": 5},
        {"client_keys": "on"},
    ],
)
def test_a_typed_value_of_the_wrong_type_is_refused(values: dict[str, Any]) -> None:
    """The constructor checks as strictly as the readers: text that says off is not taken for true."""
    with pytest.raises(ConfigurationError, match="expected"):
        Settings(**values)


def test_a_ca_bundle_must_exist(tmp_path: Path) -> None:
    """A file that is there is taken."""
    path = tmp_path / "ca.pem"
    path.write_text("x")
    assert str(path) == Settings.from_env({"SLUICE_CA_BUNDLE": str(path)}).ca_bundle


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, False),
        ({"open": True}, True),
        ({"open": True, "client_keys": False}, False),
        ({"client_keys": True}, True),
    ],
)
def test_client_keys_follow_open_mode_unless_set(values: dict[str, Any], expected: bool) -> None:
    """On in open mode, else off, and a setting of one's own decides."""
    assert expected is Settings(**values).takes_client_keys


@given(st.floats(0.1, 300), st.floats(0.1, 1000))
def test_the_tick_is_fine_and_cheap(heartbeat: float, idle: float) -> None:
    """Streams are looked at often enough for the shortest limit and never more than fifty times a second."""
    tick = Settings(heartbeat=heartbeat, idle_timeout=idle).tick
    assert 0.02 <= tick <= 0.4
    assert tick <= max(min(heartbeat, idle) / 4, 0.02)
