"""The errors' two faces, and what is made of upstream's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app import errors, wire
from app.errors import (
    GatewayError,
    Overloaded,
    RequestError,
    UpstreamStatusError,
    from_upstream,
    mask_secrets,
    type_for_status,
)

CLASSES = [found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, GatewayError)]
KEY = "sk-or-v1-0123456789abcdef"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_has_a_whole_object(kind: type[GatewayError]) -> None:
    """Each class gives message, type, param and code, and an HTTP error status."""
    found = kind("words", param="field").to_object()
    assert list(found) == ["message", "type", "param", "code"]
    assert ("words", "field", kind.code) == (found["message"], found["param"], found["code"])
    assert 400 <= kind.status <= 599


def test_each_code_belongs_to_one_class_only() -> None:
    """Programs switch on the code, so no two classes that are raised share one."""
    codes = [kind.code for kind in CLASSES if "code" in vars(kind)]
    assert sorted(set(codes)) == sorted(codes)


def test_every_end_reason_is_one_of_the_records() -> None:
    """The record knows a closed set of end reasons."""
    known = (
        "completed length tool_calls content_filter upstream_error upstream_cut upstream_timeout upstream_empty"
        " deadline client_disconnected client_stalled rejected draining internal_error"
    )
    assert set() == {kind.end_reason for kind in CLASSES} - set(known.split())


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "insufficient_quota"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (413, "invalid_request_error"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (503, "server_error"),
        (529, "server_error"),
    ],
)
def test_the_type_follows_from_the_status(status: int, word: str) -> None:
    """Each status has OpenAI's word for its kind."""
    assert word == type_for_status(status)


def test_metadata_is_told_only_where_there_is_some() -> None:
    """An error without metadata has no such key."""
    assert "metadata" not in RequestError("x").to_object()
    assert RequestError("x", metadata={"a": 1}).to_object()["metadata"] == {"a": 1}


def test_headers_tell_when_to_come_back_and_whether_to_retry() -> None:
    """Retry-After is handed on, and after our own retries the SDKs are told to stop theirs."""
    error = Overloaded("x", retry_after="7", headers={"A": "b"})
    assert error.to_headers() == {"A": "b", "Retry-After": "7"}
    error.retried = True
    assert error.to_headers() == {"A": "b", "Retry-After": "7", "x-should-retry": "false"}


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {KEY}",
        "Incorrect API key provided: sk-or-v1-abc...xyz",
        "Incorrect API key provided: sk-proj-****abcd.",
        "key=sk-0123456789 was refused",
        'header "Authorization: Bearer abcdefgh" was refused',
        "SK-OR-V1-0123456789ABCDEF",
        "POST https://ann:abc@up.example/v1 was refused",
        "POST https://abcxyz@up.example/v1 was refused",
        "no answer from https://up.example/v1?alt=sse&key=AIzaSy0123456789: 400",
        "'https://up.example/v1?api_key=abc'",
        "https://up.example/v1?access_token=xyz&x=1",
    ],
)
def test_what_looks_like_a_key_is_masked(text: str) -> None:
    """Keys of any spelling, whole or clipped, leave no trace of theirs."""
    masked = mask_secrets(text)
    assert "[masked]" in masked
    assert [part for part in ("0123456789", "abc", "xyz", "ABCDEF", "****") if part in masked] == []


def test_a_known_secret_is_masked_whatever_it_looks_like() -> None:
    """A key without any prefix is replaced because it is known."""
    assert mask_secrets("it was hunter2hunter2.", None, "hunter2hunter2") == "it was [masked]."


@pytest.mark.parametrize(
    "text",
    [
        "high-risk-category",
        "the task-force and the desk-mounted lamp",
        "sk-",
        "asks",
        "see https://up.example/@ann?monkey=1&keys=2 or write to ann@up.example",
    ],
)
def test_words_that_look_alike_are_no_keys(text: str) -> None:
    """Ordinary words and addresses are left alone."""
    assert text == mask_secrets(text)


@pytest.mark.parametrize(
    ("error", "http_status", "status", "code"),
    [
        ({"code": 429, "message": "m", "metadata": {"error_type": "rate_limited"}}, 429, 429, "rate_limited"),
        ({"code": 502, "message": "m"}, 200, 502, "502"),
        ({"code": "502", "message": "m"}, 200, 502, "502"),
        ({"code": "server_error", "message": "m"}, 200, 502, "server_error"),
        ({"message": "m", "error_type": "model_deprecated", "http_status": 404}, 400, 404, "model_deprecated"),
        ({"message": "m", "http_status": 503}, 200, 503, "503"),
        ({"message": "m"}, 422, 422, "422"),
        ({"message": "m"}, 200, 502, "502"),
        ({"code": 200, "message": "m"}, 200, 502, "200"),
        ({"code": None, "message": "m", "metadata": None}, 529, 529, "529"),
        ({"code": {"odd": 1}, "message": "m", "metadata": {"error_type": ["odd"]}}, 200, 502, "502"),
        ({"code": True, "message": "m"}, 402, 402, "True"),
    ],
)  # fmt: skip
def test_status_and_code_are_found_in_every_form_of_upstreams_error(
    error: dict[str, Any], http_status: int, status: int, code: str
) -> None:
    """The status is upstream's own wherever it says one, the code its stable word."""
    found = from_upstream(error, http_status, own_key=False)
    assert (status, code, "m") == (found.status, found.code, found.message)


def test_an_error_that_is_only_text_is_told_as_it_is() -> None:
    """Text under ``error`` is the message, and the code is the status it amounts to."""
    found = from_upstream("out of luck", 200, own_key=False)
    assert (found.message, found.status, found.code) == ("out of luck", 502, "502")


@pytest.mark.parametrize("error", [None, 5, [], ["x"], {}, {"message": ""}, {"message": 5}, {"message": None}])
def test_an_error_without_words_gets_some(error: Any) -> None:
    """Whatever stands under ``error``, the message is text and not empty."""
    assert from_upstream(error, 500, own_key=False).message == ("upstream failed with status 500 and gave no reason")


@pytest.mark.parametrize("code", ["²", "٤٢٩", "9" * 5000, "-1", "4 2", 10**400, -1, 1.5, float("inf"), "", [], {}])
def test_odd_codes_do_not_break_the_telling(code: Any) -> None:
    """Any code there may be gives an error status, and an object that can be written."""
    found = from_upstream({"code": code, "message": "m"}, 200, own_key=False)
    assert found.status == 502
    assert isinstance(found.code, str) and found.code
    assert json.loads(wire.dumps(found.to_object()))


def test_a_401_on_the_operators_key_is_told_neutrally() -> None:
    """Callers learn nothing of a key that is not theirs."""
    error = {"code": 401, "message": f"bad key {KEY}", "metadata": {"key": KEY}}
    found = from_upstream(error, 401, own_key=True, secret=KEY)
    assert (found.code, found.status, found.metadata) == ("upstream_auth", 502, None)
    assert KEY not in found.message


def test_a_401_on_the_clients_key_is_a_401() -> None:
    """The caller whose key it is gets upstream's word."""
    found = from_upstream({"code": 401, "message": "No auth"}, 401, own_key=False)
    assert (found.status, found.type, found.message) == (401, "authentication_error", "No auth")


def test_keys_are_masked_at_any_depth() -> None:
    """Message, code and metadata are rid of the call's key."""
    error = {"message": f"m {KEY}", "code": f"no {KEY}", "metadata": {"raw": [{"k": f"Bearer {KEY}"}], "n": 1}}
    found = from_upstream(error, 400, own_key=False, secret=KEY)
    assert KEY not in json.dumps(found.to_object())
    assert found.to_object()["metadata"]["n"] == 1


def test_what_upstream_says_beside_the_message_is_kept() -> None:
    """Metadata that holds no secret is handed on as it came."""
    metadata = {"error_type": "provider_unavailable", "previous_errors": [{"code": 502}]}
    found = from_upstream({"code": 502, "message": "m", "metadata": metadata}, 200, own_key=True)
    assert metadata == found.metadata
    assert isinstance(found, UpstreamStatusError)
