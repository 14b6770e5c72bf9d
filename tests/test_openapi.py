"""The OpenAPI document: valid, complete, and true of what the gateway takes and gives."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from app import ConfigurationError, Settings, Stage, create_app, create_blueprint, errors
from app.chat import make_request
from app.demo import DemoUpstream
from app.errors import NotFound, RequestError
from app.gateway import Gateway
from app.pipeline import Endpoint
from tests.conftest import QUESTION, Served
from tests.servers import RawStream, open_stream, request

OPEN = {"SLUICE_OPEN": "on"}
JUNK: list[Any] = [None, True, False, 0, 1, -1, 0.5, 10**30, "", " ", "x", [], ["x"], [1], {}, {"x": 1}]
MESSAGES: list[Any] = [
    [],
    ["x"],
    [{}],
    [{"role": "user"}],
    [{"role": "user", "content": "quick"}],
    [{"role": "robot", "content": "quick"}],
    [{"role": "user", "content": 1}],
    [{"role": "user", "content": [{"type": "text", "text": "quick"}]}],
    [{"role": "user", "content": ["quick"]}],
    [{"role": "assistant", "content": None}, {"role": "user", "content": "x"}],
]


def document_of(app: Flask, path: str = "/openapi.json", root: str = "") -> dict[str, Any]:
    """Fetch the document."""
    response = app.test_client().get(path, environ_overrides={"SCRIPT_NAME": root})
    assert 200 == response.status_code
    found: dict[str, Any] = response.get_json()
    return found


def validator(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Draft202012Validator:
    """Make a validator of one schema of the document."""
    return Draft202012Validator({"components": document["components"], "allOf": [schema]})


def body_schema(document: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """Give the schema of what a path's POST takes."""
    schema: Mapping[str, Any] = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema


def candidates(schema: Mapping[str, Any]) -> list[Any]:
    """Give values at and beyond what a property's schema allows, and others of every kind."""
    found = [*JUNK, *schema.get("enum", ()), *schema.get("examples", ())]
    for size in (schema.get("maxLength"), schema.get("minLength")):
        found += ["y" * size, "y" * (size + 1)] if size is not None else []
    for bound in (schema.get("minimum"), schema.get("maximum")):
        found += [bound - 1, bound, bound + 1] if bound is not None else []
    items = schema.get("items", {})
    found += [[value] for value in candidates(items)] if items else []
    most = schema.get("maxItems")
    found += [["y"] * most, ["y"] * (most + 1)] if most else []
    for name, value in schema.get("properties", {}).items():
        found += [{name: given} for given in candidates(value)]
    # NOTE: JSON Schema takes 1.0 for an integer; Python's reader keeps it apart, and nobody writes it so.
    return [value for value in found if not isinstance(value, float) or value != int(value)]


def bodies(schema: Mapping[str, Any], **more: list[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Make objects of candidates for each property, any of them left out."""
    pools = {name: st.sampled_from(more.get(name) or candidates(s)) for name, s in schema["properties"].items()}
    needed = {name: pool for name, pool in pools.items() if name in schema["required"]}
    few = {name: pool for name, pool in pools.items() if name not in needed}
    whole = st.fixed_dictionaries(needed, optional=few)
    some = st.sets(st.sampled_from(sorted(few)), max_size=3) if few else st.just(set())
    return st.tuples(whole, some).map(lambda p: {k: v for k, v in p[0].items() if k in needed or k in p[1]})


def each(schema: Mapping[str, Any], body: dict[str, Any], **more: list[Any]) -> list[dict[str, Any]]:
    """Give *body* with each candidate for each property, one at a time."""
    properties = schema["properties"].items()
    return [{**body, name: value} for name, s in properties for value in more.get(name) or candidates(s)]


def is_taken(handler: Callable[[dict[str, Any]], Any], body: dict[str, Any]) -> bool:
    """Tell whether *handler* takes a body; an exception that is no refusal fails the test."""
    try:
        handler(json.loads(json.dumps(body)))
    except NotFound:
        return True
    except RequestError:
        return False
    return True


GATEWAYS = pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="shipped"),
        pytest.param({"SLUICE_PARSELTONGUE": "on", "SLUICE_PARSELTONGUE_TRIGGERS": "quick"}, id="parseltongue"),
        pytest.param({"SLUICE_CLIENT_KEYS": "off", "SLUICE_STRATEGY": "precise"}, id="no-client-keys"),
        pytest.param({"SLUICE_PIPELINE": "off"}, id="plain"),
    ],
)
"""Settings that change what is taken."""


@GATEWAYS
def test_the_document_is_valid(values: dict[str, str]) -> None:
    """It passes the validator of OpenAPI 3.1, and each schema in it is one."""
    document = document_of(create_app({**OPEN, **values}))

    assert [] == [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()]
    assert document["openapi"].startswith("3.1.")


@GATEWAYS
def test_it_describes_every_route_and_no_other(values: dict[str, str]) -> None:
    """Paths and methods are those that are registered; HEAD goes with GET and is not written down."""
    app = create_app({**OPEN, **values})
    registered = {
        (re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule), method)
        for rule in app.url_map.iter_rules()
        if "rest" not in rule.arguments  # what answers for routes that are none
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    described = {
        (path, method.upper()) for path, item in document_of(app)["paths"].items() for method in item
    }  # fmt: skip

    assert registered == described


def test_it_knows_where_it_is_mounted() -> None:
    """In a blueprint it is served when asked for, with the server's URL ending in the prefix."""
    app = Flask(__name__)
    app.register_blueprint(create_blueprint(OPEN, url_prefix="/ai", extras=["openapi"]))

    assert [{"url": "/gw/ai"}] == document_of(app, "/ai/openapi.json", "/gw")["servers"]
    assert [{"url": "/"}] == document_of(create_app(OPEN))["servers"]


def test_a_blueprint_serves_it_only_if_told_to() -> None:
    """Without the option there is no such route; an extra that does not exist stops the start."""
    app = Flask(__name__)
    app.register_blueprint(create_blueprint(OPEN, url_prefix="/ai"))

    assert 404 == app.test_client().get("/ai/openapi.json").status_code
    with pytest.raises(ConfigurationError, match="extras: expected any of openapi"):
        create_blueprint(OPEN, extras=["opnapi"])


def test_every_error_of_a_request_is_in_it() -> None:
    """Each class that a request can be answered with is named under its status."""
    document = document_of(create_app(OPEN))
    told: dict[str, str] = {}
    for item in document["paths"].values():
        for operation in item.values():
            for status, response in operation["responses"].items():
                told[status] = told.get(status, "") + response["description"]
    never = {"configuration_error", "client_disconnected", "method_not_allowed", "host_error"}
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = {(c.code, str(c.status)) for c in classes if issubclass(c, errors.GatewayError)}

    assert set() == {
        code for code, status in codes if code not in never and f"`{code}`" not in told.get(status, "")
    }  # fmt: skip


@GATEWAYS
def test_what_it_says_of_a_chat_completion_is_what_is_checked(values: dict[str, str]) -> None:
    """A body fits the schema if and only if the parser and the stages take it."""
    gateway = Gateway(Settings.from_mapping(OPEN, values))
    document = document_of(create_app({**OPEN, **values}))
    schema = body_schema(document, "/v1/chat/completions")
    check = validator(document, schema)

    def take(body: dict[str, Any]) -> None:
        asked = make_request(body, gateway.settings, gateway.own_fields)
        gateway.gate.upstream_key(FakeRequest, asked.options.get("openrouter_api_key"))
        gateway.pipeline.run(asked)

    def holds(body: dict[str, Any]) -> None:
        assert check.is_valid(body) == is_taken(take, body), body

    for body in each(schema, QUESTION, messages=MESSAGES + JUNK):
        holds(body)
    settings(deadline=None)(given(bodies(schema, messages=MESSAGES + JUNK))(holds))()


class FakeRequest:
    """A request without headers."""

    headers: Mapping[str, str] = {}


@pytest.mark.parametrize("values", [{}, {"SLUICE_PARSELTONGUE_TRIGGERS": "quick"}], ids=["shipped", "triggers"])
@pytest.mark.parametrize(
    "path", ["/autotune/analyze", "/parseltongue/encode", "/parseltongue/detect", "/transform"]
)  # fmt: skip
def test_what_it_says_of_an_endpoint_is_what_is_checked(values: dict[str, str], path: str) -> None:
    """A body fits the schema if and only if the endpoint takes it, and what it gives fits too."""
    gateway = Gateway(Settings.from_mapping(OPEN, values))
    (endpoint,) = (e for stage in gateway.pipeline.stages for e in stage.endpoints() if e.path == path)
    document = document_of(create_app({**OPEN, **values}))
    schema = body_schema(document, f"/v1{path}")
    check = validator(document, schema)

    def holds(body: dict[str, Any]) -> None:
        assert check.is_valid(body) == is_taken(endpoint.handler, body), body
        if check.is_valid(body):
            assert endpoint.gives is not None
            validator(document, endpoint.gives).validate(endpoint.handler(body))

    good = {name: schema["properties"][name]["examples"][0] for name in schema["required"]}
    for body in each(schema, good):
        holds(body)
    settings(deadline=None)(given(bodies(schema))(holds))()


def test_what_it_says_of_feedback_is_what_is_checked(tmp_path: Path) -> None:
    """A rating fits the schema if and only if it is taken, or its completion is unknown."""
    app = create_app({**OPEN, "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/x.db"})
    document, feedback = document_of(app), app.extensions["sluice"]["sluice"].feedback
    schema = body_schema(document, "/v1/feedback")
    check = validator(document, schema)

    def holds(body: dict[str, Any]) -> None:
        taken = is_taken(lambda found: feedback.submit(found, None, may_give_params=True), body)
        assert check.is_valid(body) == taken, body

    ids = ["chatcmpl-1", "", "x" * 128, "x" * 129, "a\n", 5, None]
    for body in each(schema, {"message_id": "chatcmpl-1", "context_type": "code", "rating": 1}, message_id=ids):
        holds(body)


class Silent(Stage):
    """A host's stage that describes nothing."""

    name = "silent"
    fields = ("silent",)

    def endpoints(self) -> list[Endpoint]:
        """Give a route without any words."""
        return [Endpoint("POST", "/silent", lambda body: {"heard": body})]


def test_a_hosts_stage_needs_to_say_nothing() -> None:
    """Its fields and endpoints are in the document, taking anything."""
    document = document_of(create_app(OPEN, stages=[Silent()]))

    assert [] == [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()]
    assert {} == document["components"]["schemas"]["ChatRequest"]["properties"]["silent"]
    assert {"type": "object"} == body_schema(document, "/v1/silent")


class Checked:
    """A gateway whose every answer is held against its document."""

    def __init__(self, served: Served) -> None:
        self.url = served.url
        with request("GET", f"{served.url}/openapi.json") as response:
            self.document = response.json()

    def get(self, path: str, template: str | None = None) -> tuple[int, Any]:
        """Ask, check and give status and body."""
        with request("GET", self.url + path) as response:
            return response.status, self.check("get", template or path, response)

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Send, check and give status and body."""
        with open_stream(self.url + path, body, headers) as response:
            return response.status, self.check("post", path, response)

    def check(self, method: str, path: str, response: RawStream) -> Any:
        """Check a response and give its body."""
        responses = self.document["paths"][path][method]["responses"]
        described = responses.get(str(response.status)) or responses["default"]
        media = response.headers["content-type"].partition(";")[0]
        schema = described["content"][media]["schema"]
        assert response.headers.keys() >= {name.lower() for name in described["headers"]} - {"retry-after"}
        if media == "text/event-stream":
            data = response.data()
            done, content = schema["properties"]["data"]["anyOf"]
            for event in data:
                validator(self.document, done if event == "[DONE]" else content["contentSchema"]).validate(event)
            return data
        body = response.json() if media == "application/json" else response.read().decode()
        validator(self.document, schema).validate(body)
        return body


@pytest.fixture
def checked(serve: Callable[..., Served]) -> Checked:
    """Give a gateway with the pipeline on."""
    return Checked(serve(SLUICE_PIPELINE="on", SLUICE_RETRIES="0"))


STREAM = {**QUESTION, "stream": True, "stream_options": {"include_usage": True}}
PIECES: list[dict[str, Any]] = [{"text": ["I think it ", "works."]}]


def test_blank_triggers_are_what_python_strips(checked: Checked) -> None:
    """The pattern of a trigger needs one character that is no white space to Python, which is what is checked."""
    schema = body_schema(checked.document, "/v1/parseltongue/encode")["properties"]["custom_triggers"]["items"]

    blank = [chr(code) for code in range(0x3100) if not re.search(schema["pattern"], chr(code))]

    assert [chr(code) for code in range(0x110000) if chr(code).isspace()] == blank


@pytest.mark.parametrize("path", ["/v1/models", "/v1/feedback", "/", "/dashboard", "/openapi.json", "/metrics"])
@pytest.mark.parametrize("method", ["TRACE", "PROPFIND", "DELETE"])
def test_other_methods_are_told_those_there_are(checked: Checked, path: str, method: str) -> None:
    """A 405 names in Allow what the path takes, and nothing else, whatever the method asked for."""
    described = {name.upper() for name in checked.document["paths"][path]}
    with request(method, checked.url + path) as response:
        allowed = set(response.headers["allow"].split(", "))
        assert 405 == response.status
        assert "method_not_allowed" == response.json()["error"]["code"]
    assert described == allowed - {"HEAD", "OPTIONS"}


def test_streams_fit_it(checked: Checked, upstream: DemoUpstream) -> None:
    """Chunks, the correction, the last chunk's facts, usage and [DONE] are as described."""
    upstream.play(PIECES)

    status, data = checked.post("/v1/chat/completions", STREAM)

    assert (200, "[DONE]") == (status, data[-1])
    assert any("final_content" in chunk.get("x_g0dm0d3", {}) for chunk in data[:-1])


@pytest.mark.parametrize(
    "script",
    [
        [{"text": ["It "]}, {"cut": "fin"}],
        [{"answer": {"status": 429, "json": {"error": {"message": "slow", "code": 429}}}}],
        [{"answer": {"status": 402, "json": {"error": {"message": "pay", "metadata": {"x": 1}}}}}],
        [{"cut": "fin"}],
    ],
    ids=["cut", "429", "402", "nothing"],
)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_failures_fit_it(checked: Checked, upstream: DemoUpstream, script: list[Any], stream: bool) -> None:
    """A failure is as described, in a stream and as a status."""
    upstream.play(script)

    status, data = checked.post("/v1/chat/completions", {**QUESTION, "stream": stream})

    assert stream == (status == 200)
    assert "error" in (data[-2] if stream else data)


def test_whole_answers_fit_it(checked: Checked, upstream: DemoUpstream) -> None:
    """Without stream the completion and its facts are as described."""
    upstream.play(PIECES)

    assert 200 == checked.post("/v1/chat/completions", QUESTION)[0]


REFUSED: list[tuple[str, str, dict[str, str], int]] = [
    ("/v1/chat/completions", "{", {}, 400),
    ("/v1/chat/completions", "{}", {"Host": "evil.example"}, 403),
    ("/v1/chat/completions", "{}", {"Content-Type": "text/plain"}, 415),
    ("/v1/chat/completions", "0\r\n\r\n", {"Transfer-Encoding": "chunked", "Content-Length": ""}, 411),
    ("/v1/chat/completions", "{}", {"Content-Length": "99999999999"}, 413),
    ("/v1/transform", '{"text": ""}', {}, 400),
    ("/v1/feedback", '{"message_id": "x", "context_type": "code", "rating": 1}', {}, 404),
    ("/v1/autotune/analyze", '{"message": "x", "conversation_history": [{"role": "user", "content": 5}]}', {}, 400),
]


@pytest.mark.parametrize(("path", "body", "headers", "status"), REFUSED)
def test_refusals_fit_it(checked: Checked, path: str, body: str, headers: dict[str, str], status: int) -> None:
    """What is refused before upstream is asked is answered as described."""
    assert status == checked.post(path, body, headers)[0]


def test_the_other_answers_fit_it(checked: Checked, upstream: DemoUpstream) -> None:
    """Every other route's answer is as described, a model that is not there included."""
    assert 200 == checked.post("/v1/autotune/analyze", {"message": "Sort a list.", "overrides": {"top_k": 500}})[0]
    assert 200 == checked.post("/v1/parseltongue/encode", {"text": "a quick fox", "custom_triggers": ["quick"]})[0]
    assert 200 == checked.post("/v1/parseltongue/detect", {"text": "a quick fox", "custom_triggers": ["quick"]})[0]
    assert 200 == checked.post("/v1/transform", {"text": "I think it works."})[0]
    rating = {"message_id": "x", "context_type": "code", "rating": 1, "params": {"temperature": 0.5}}
    assert 200 == checked.post("/v1/feedback", rating)[0]
    for path, item in checked.document["paths"].items():
        if "get" in item and "{" not in path and not path.startswith(("/v1/metadata", "/metrics", "/dashboard")):
            assert 200 == checked.get(path)[0], path
    assert 200 == checked.get("/v1/models/demo/echo", "/v1/models/{model_id}")[0]
    assert 404 == checked.get("/v1/models/no/such", "/v1/models/{model_id}")[0]


def _leave(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    "schema",
    [
        lambda: _leave(SystemExit(4)),
        lambda: _leave(ValueError("secret")),
        lambda: None,
        lambda: {"properties": {"mask": {1}}},
        lambda: {"properties": ["mask"]},
        lambda: {"properties": {}, "allOf": {"not": "a list"}},
    ],
    ids=["an exit", "an error", "nothing", "no JSON", "a list", "rules that are none"],
)
def test_a_stage_that_cannot_describe_its_fields_spoils_no_document(
    schema: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Its fields may be anything there, the log says whose they are, and the worker lives."""

    class Mask(Stage):
        name = "mask"
        fields = ("mask",)

    stage = Mask()
    stage.schema = schema  # type: ignore[method-assign]
    app = Flask("host")
    app.register_blueprint(create_blueprint({**OPEN, "SLUICE_PIPELINE": "on"}, stages=[stage], extras=["openapi"]))

    document = document_of(app)

    assert {} == body_schema(document, "/v1/chat/completions")["properties"]["mask"]
    assert "stage mask failed in schema" in caplog.text and "secret" not in caplog.text
