"""A record is written once, whatever happens, and holds facts only."""

from __future__ import annotations

import json
import re
import threading

import pytest

from app.errors import GatewayError, RequestError, UpstreamCut, from_upstream
from app.record import Record, ignore, new_completion_id
from tests.clock import PATIENCE


def test_a_completion_id_has_openais_form() -> None:
    """Its prefix and 24 hex digits, new each time."""
    ids = {new_completion_id() for _ in range(100)}
    assert 100 == len(ids)
    assert all(re.fullmatch(r"chatcmpl-[0-9a-f]{24}", one) for one in ids)


def test_only_the_first_end_counts() -> None:
    """The recorder is called once, with the first reason."""
    kept: list[Record] = []
    record = Record(kept.append)
    assert [True, False, False] == [record.close(reason) for reason in ("completed", "draining", "completed")]
    assert [record] == kept
    assert "completed" == record.end_reason


def test_of_many_threads_one_closes() -> None:
    """Consumer, reader and ticker may all find an end."""
    kept: list[Record] = []
    record, gate, told = Record(kept.append), threading.Barrier(8), []

    def close(name: str) -> None:
        gate.wait(PATIENCE)
        told.append((record.close(name), name))

    threads = [threading.Thread(target=close, args=(f"reason {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [record.end_reason] == [name for is_first, name in told if is_first]
    assert ([record], 8) == (kept, len(told))


def test_times_are_milliseconds_since_the_request_came() -> None:
    """The total is set by the end and does not grow after it."""
    record = Record(_started=0.0)
    assert record.elapsed_ms() > 0
    assert record.total_ms is None
    record.close("completed")
    total = record.total_ms
    record.close("completed")
    assert total == record.total_ms


def test_facts_are_json_without_the_machinery() -> None:
    """The dictionary holds every fact under its name, zeros and nulls as they are, and no recorder or lock."""
    record = Record(usage={"total_tokens": 0, "cost": 0}, provider=None)
    record.close("length")
    found = record.to_dict()
    assert {"total_tokens": 0, "cost": 0} == found["usage"]
    assert found["provider"] is None
    assert json.loads(json.dumps(found)) == found
    assert not [name for name in found if name.startswith("_") or name == "recorder"]
    assert {"record_id", "completion_id", "generation_id", "end_reason", "attempts", "status"} <= found.keys()


def test_records_have_ids_and_parts_of_their_own() -> None:
    """Two requests share nothing."""
    first, second = Record(), Record()
    assert first.record_id != second.record_id
    first.attempts.append({"status": 200})
    first.pipeline["a"] = 1
    assert ([], {}) == (second.attempts, second.pipeline)


def test_a_record_has_no_room_for_what_is_never_kept() -> None:
    """Prompts, answers, keys and addresses have no field, and none can be added; the one message is our own."""
    record = Record(ignore)
    with pytest.raises(AttributeError):
        record.prompt = "x"  # type: ignore[attr-defined]
    assert ["error_message"] == [
        name for name in record.to_dict() if re.search("prompt|message|content|address|ip$|api_key", name)
    ]


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (RequestError("a.b: expected text, got 'my secret'"), ("invalid_request", "a.b: expected text")),
        (
            from_upstream({"code": 400, "message": "bad word: secret"}, 400, own_key=True),
            ("400", "upstream failed with status 400"),
        ),
        (
            from_upstream({"code": "my secret is long", "message": "x"}, 502, own_key=True),
            ("upstream_error", "upstream failed with status 502"),
        ),
        (UpstreamCut("the answer broke off"), ("upstream_cut", "the answer broke off")),
    ],
)
def test_of_an_error_only_our_own_words_are_kept(error: GatewayError, kept: tuple[str, str]) -> None:
    """What a client or upstream wrote may quote the prompt."""
    record = Record()
    record.note_error(error)
    assert kept == (record.error_code, record.error_message)
    assert error.type == record.error_type
