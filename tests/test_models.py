"""The model list: one fetch for all, kept, and served stale when upstream fails."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from app import models
from app.errors import NotFound, UpstreamConnectionError, UpstreamProtocolError, UpstreamStatusError
from app.models import ModelList
from tests.clock import PATIENCE, Clock

OLD: dict[str, Any] = {"data": [{"id": "a/one", "created": 5, "context_length": 10}, {"id": "two"}]}
NEW: dict[str, Any] = {"data": [{"id": "b/three"}]}


class FakeClient:
    """Answers from a script, the last answer again and again; exceptions are raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.paths: list[str] = []

    def get(self, path: str) -> Any:
        self.paths.append(path)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = answer()
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(models, "time", found)
    return found


def listed(client: Any, ttl: float = 300.0) -> ModelList:
    return ModelList(client, ttl)


def ids(found: ModelList) -> list[str]:
    return [model["id"] for model in found.all()["data"]]


def test_the_list_has_the_shape_openais_clients_read() -> None:
    """Each model has object, created and owner, and keeps what OpenRouter says of it."""
    client = FakeClient(OLD)
    assert {
        "object": "list",
        "data": [
            {"id": "a/one", "object": "model", "created": 5, "owned_by": "a", "context_length": 10},
            {"id": "two", "object": "model", "created": 0, "owned_by": "upstream"},
        ],
    } == listed(client).all()
    assert ["/models"] == client.paths


def test_one_model_is_found_by_its_id() -> None:
    """An id may hold slashes."""
    assert 10 == listed(FakeClient(OLD)).one("a/one")["context_length"]


def test_an_unknown_model_is_a_404() -> None:
    """The message says where to look, and clips what it was asked for."""
    with pytest.raises(NotFound, match="GET /v1/models") as caught:
        listed(FakeClient(OLD)).one("x" * 10_000)
    assert (404, "model_not_found") == (caught.value.status, caught.value.code)
    assert len(caught.value.message) < 300


def test_the_list_is_fetched_once_while_it_is_fresh(clock: Clock) -> None:
    """Until its age is reached, nobody asks upstream."""
    client = FakeClient(OLD, NEW)
    found = listed(client, ttl=300)
    assert ["a/one", "two"] == ids(found) == ids(found)
    clock.now += 299
    assert ["a/one", "two"] == ids(found)
    clock.now += 1
    assert ["b/three"] == ids(found)
    assert 2 == len(client.paths)


@pytest.mark.parametrize(
    "failure",
    [
        UpstreamConnectionError("x"),
        UpstreamStatusError("x"),
        None,
        [],
        {"data": None},
        {"error": {}},
        {"data": {}},
        "x",
    ],
)
def test_a_stale_list_is_served_when_upstream_fails(clock: Clock, failure: Any) -> None:
    """Only a list is stored; after a pause upstream is asked again."""
    client = FakeClient(OLD, failure, NEW)
    found = listed(client)
    ids(found)
    clock.now += 300
    assert ["a/one", "two"] == ids(found) == ids(found)
    assert 2 == len(client.paths)
    clock.now += 5
    assert ["b/three"] == ids(found)


def test_the_first_failure_is_told_and_not_kept() -> None:
    """Without any list the error is the answer, and the next caller asks anew."""
    found = listed(FakeClient(UpstreamConnectionError("down"), {"nothing": 1}, OLD))
    with pytest.raises(UpstreamConnectionError, match="down"):
        found.all()
    with pytest.raises(UpstreamProtocolError, match="no `data`"):
        found.one("a/one")
    assert ["a/one", "two"] == ids(found)


def test_entries_that_are_no_models_are_left_out() -> None:
    """A broken entry costs itself only; an empty list is a list."""
    data = [None, 5, "x", {}, {"id": 5}, {"id": None}, {"id": ["x"]}, {"id": "ok", "created": None, "object": "odd"}]
    found = listed(FakeClient({"data": data}))
    assert [{"id": "ok", "object": "odd", "created": 0, "owned_by": "upstream"}] == found.all()["data"]
    assert [] == listed(FakeClient({"data": []})).all()["data"]


def test_known_never_asks_upstream() -> None:
    """It tells what the list as it is now holds."""
    client = FakeClient(OLD)
    found = listed(client)
    assert not found.known("a/one")
    assert [] == client.paths
    found.all()
    assert (True, False) == (found.known("a/one"), found.known("b"))


def test_many_callers_share_the_first_fetch() -> None:
    """While one fetches, the others wait for its list."""
    entered, go = threading.Event(), threading.Event()

    def slow() -> Any:
        entered.set()
        assert go.wait(PATIENCE)
        return OLD

    client, results = FakeClient(slow), []
    found = listed(client)
    threads = [threading.Thread(target=lambda: results.append(ids(found))) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert entered.wait(PATIENCE)
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert [["a/one", "two"]] * 5 == results
    assert 1 == len(client.paths)


def test_who_can_be_served_a_stale_list_does_not_wait_for_a_fetch(clock: Clock) -> None:
    """One caller fetches, the others take what there is."""
    entered, go = threading.Event(), threading.Event()

    def slow() -> Any:
        entered.set()
        assert go.wait(PATIENCE)
        return NEW

    found = listed(FakeClient(OLD, slow))
    ids(found)
    clock.now += 300
    fetcher = threading.Thread(target=lambda: ids(found))
    fetcher.start()
    assert entered.wait(PATIENCE)
    assert ["a/one", "two"] == ids(found)
    go.set()
    fetcher.join(PATIENCE)
    assert ["b/three"] == ids(found)


def test_with_an_age_of_zero_every_call_asks() -> None:
    """The cache can be switched off, and still serves stale."""
    client = FakeClient(OLD, NEW, UpstreamConnectionError("x"))
    found = listed(client, ttl=0)
    assert [["a/one", "two"], ["b/three"], ["b/three"]] == [ids(found) for _ in range(3)]
    assert 3 == len(client.paths)
