"""What nobody sends by accident: a clean refusal or a faithful relay, never a fault of ours, and no worker is lost."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.demo import DemoUpstream
from tests.clock import PATIENCE
from tests.conftest import QUESTION, Served
from tests.servers import GunicornGateway, RawStream, free_port, open_stream, request, wait_until
from tests.test_bad_input import assert_error
from tests.test_deploy import Nginx, shipped_site

GOOD = json.dumps(QUESTION).encode()
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD)


def post(fields: str = "", body: bytes = GOOD, *, length: str | None = "", kind: str = "application/json") -> bytes:
    """Spell a request out: further header lines, and what stands for the length; None leaves that out."""
    size = "" if length is None else f"Content-Length: {length or len(body)}\r\n"
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nConnection: close\r\n"
    return f"{head}{size}{fields}\r\n".encode("latin-1") + body


def line(text: str, fields: str = "Host: localhost\r\n") -> bytes:
    """Spell a request without a body out."""
    return f"{text}\r\n{fields}Connection: close\r\n\r\n".encode("latin-1")


def chunked(coding: str, body: bytes = CHUNKED) -> bytes:
    """Spell a request out whose body comes by transfer codings."""
    return post(f"Transfer-Encoding: {coding}\r\n", body, length=None)


RAW: dict[str, bytes] = {
    "id with encoded line end": post("X-Request-Id: a%0d%0aX-Evil: 1\r\n"),
    "id with CR": post("X-Request-Id: a\rX-Evil: 1\r\n"),
    "id with LF": post("X-Request-Id: a\nX-Evil: 1\r\n"),
    "id folded": post("X-Request-Id: a\r\n X-Evil: 1\r\n"),
    "header with NUL": post("X-A: a\0b\r\n"),
    "header name with space": post("X A: a\r\n"),
    "space before the colon": post("X-A : a\r\n"),
    "no colon": post("nonsense\r\n"),
    "huge header": post("X-A: " + "a" * 100_000 + "\r\n"),
    "many headers": post("".join(f"X-{number}: a\r\n" for number in range(500))),
    "same length twice": post(f"Content-Length: {len(GOOD)}\r\n"),
    "two lengths": post("Content-Length: 3\r\n"),
    "length and chunks": post("Transfer-Encoding: chunked\r\n", CHUNKED),
    "negative length": post(length="-5"),
    "signed length": post(length="+5"),
    "hexadecimal length": post(length="0x10"),
    "length past 64 bits": post(length="9" * 30),
    "length in another script": post(length="\xb2"),
    "unknown coding": chunked("xchunked"),
    "coding twice": chunked("chunked\r\nTransfer-Encoding: chunked"),
    "chunked then gzip": chunked("chunked, gzip"),
    "size that is none": chunked("chunked", b"zz\r\n"),
    "huge size": chunked("chunked", b"f" * 40 + b"\r\n"),
    "types twice": post("Content-Type: text/plain\r\n"),
    "unknown charset": post(kind="application/json; charset=klingon"),
    "UTF-16": post(body=GOOD.decode().encode("utf-16"), kind="application/json; charset=utf-16"),
    "open quote": post(kind='application/json; a="b;;;'),
    "gzip": post("Content-Encoding: gzip\r\n"),
    "no encoding named": post("Content-Encoding:\r\n"),
    "unknown encodings": post("Content-Encoding: zstd, \x80\r\n"),
    "continue": post("Expect: 100-continue\r\n"),
    "other expectation": post("Expect: 200-ok\r\n"),
    "two hosts": post("Host: evil.example\r\n"),
    "no host": line("GET /v1/models HTTP/1.1", ""),
    "host with spaces": line("GET /v1/models HTTP/1.1", "Host: a b<>\r\n"),
    "host that is no ASCII": line("GET /v1/models HTTP/1.1", "Host: \xff\r\n"),
    "foreign address": line("GET http://evil.example/v1/models HTTP/1.1"),
    "odd version": line("GET /v1/models HTTP/9.9"),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 200 + b"\r\n\r\n",
    "small letters": line("get /v1/models HTTP/1.1"),
    "CONNECT": line("CONNECT localhost:80 HTTP/1.1"),
    "TRACE": line("TRACE /v1/models HTTP/1.1"),
    "star": line("OPTIONS * HTTP/1.1"),
    "long address": line("GET /" + "a" * 20_000 + " HTTP/1.1"),
    "absurd query": line("GET /v1/models?" + "a=b&" * 500 + "%ff%00[]=&&==" + " HTTP/1.1"),
    "token that is no ASCII": post("Authorization: Bearer sk-or-\xff\r\n"),
    "token with a tab": post("Authorization: Bearer sk-or-a\tb\r\n"),
    "huge token": post("Authorization: Bearer " + "a" * 8000 + "\r\n"),
    "forwarded oddly": post("X-Forwarded-For: " + "1.2.3.4, " * 500 + "\xff\r\nX-Forwarded-Proto: \xff\r\n"),
    "NUL in the path": line("GET /v1/models/%00 HTTP/1.1"),
    "no UTF-8 in the path": line("GET /v1/models/%ff%fe HTTP/1.1"),
    "raw bytes in the path": line("GET /v1/models/\xff\xfe HTTP/1.1"),
    "line end in the path": line("GET /v1/models/%0d%0aX-Evil:%201 HTTP/1.1"),
    "upwards": line("GET /v1/models/..%2f..%2fetc%2fpasswd HTTP/1.1"),
    "upwards in clear": line("GET /v1/../../etc/passwd HTTP/1.1"),
    "slashes": line("GET //v1///models HTTP/1.1"),
    "broken percents": line("GET /v1/%zz%e HTTP/1.1"),
    "percents for letters": line("GET /v1/%6dodels HTTP/1.1"),
}


ALLOWED = {"unknown coding": 501, "chunked then gzip": 501, "odd version": 505}
"""Statuses past 500 that servers give by RFC 9112, section 6.1, and RFC 9110, section 15.6.6."""

CODES = {
    "id with CR": "malformed_request",
    "huge header": "headers_too_large",
    "many headers": "headers_too_large",
    "two lengths": "malformed_request",
    "odd version": "malformed_request",
    "TLS": "malformed_request",
    "long address": "request_line_too_long",
}
"""What is told of what never reaches the application."""


@pytest.fixture(scope="module")
def asked() -> Iterator[DemoUpstream]:
    """The upstream of this module's gateway."""
    with DemoUpstream() as server:
        yield server


@pytest.fixture(scope="module")
def gateway(asked: DemoUpstream) -> Iterator[GunicornGateway]:
    """One gateway for the whole module, which must survive it."""
    with GunicornGateway({"OPENROUTER_BASE_URL": asked.base_url}) as running:
        yield running
        assert 1 == running.log().count("Booting worker"), running.log()
        assert "Traceback" not in running.log()
        assert "127.0.0.1" not in running.log().partition("Booting worker")[2]


@pytest.fixture(scope="module", params=["direct", "nginx"])
def front(
    request: pytest.FixtureRequest, gateway: GunicornGateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The gateway's address, and that of nginx before it."""
    if request.param == "direct":
        yield gateway.url
        return
    port = free_port()
    server = Nginx(tmp_path_factory.mktemp("hostile"), shipped_site(int(gateway.url.rpartition(":")[2]), port), port)
    server.start()
    yield server.url
    server.stop()


@pytest.mark.parametrize("name", RAW)
def test_a_hostile_request_is_answered_cleanly(front: str, name: str) -> None:
    """Directly and behind nginx: a refusal or an answer, none of it what the request tried to put into the response."""
    answer, text = sent(front, RAW[name])

    if answer.status >= 400:
        assert "application/json" == answer.headers["content-type"]
        param = "Authorization" if name.startswith("token that") or name == "token with a tab" else None
        assert_error(json.loads(text), CODES.get(name), param)
    assert answer.status < 500 or answer.status == ALLOWED.get(name)
    assert "x-evil" not in answer.headers
    assert "\n" not in "".join(answer.headers.values())
    with request("GET", front + "/v1/health") as alive:
        assert 200 == alive.status


def sent(url: str, raw: bytes) -> tuple[RawStream, str]:
    """Send bytes on a connection of their own, read the answer to its end, and close; give it and its body."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), PATIENCE) as client:
        try:
            client.sendall(raw)
        except OSError:
            pass  # it has been answered before it was sent
        answer = RawStream(client, PATIENCE)
        if answer.status == 100:
            answer = RawStream(client, PATIENCE, answer)
        return answer, answer.read().decode()


def test_each_hostile_request_is_recorded_once(asked: DemoUpstream) -> None:
    """What reaches the chat route has one record, with the status that was told; nothing else has any."""
    with GunicornGateway({"OPENROUTER_BASE_URL": asked.base_url}) as gateway:
        answers = [sent(gateway.url, raw)[0] for raw in RAW.values() if raw.startswith(b"POST")]
        for raw in (raw for raw in RAW.values() if not raw.startswith(b"POST")):
            sent(gateway.url, raw)
        reached = [(one.headers["x-request-id"], one.status) for one in answers if "x-request-id" in one.headers]

        def records() -> list[tuple[str, int]]:
            with request("GET", f"{gateway.url}/v1/metadata/events?limit=1000") as response:
                return [(event["request_id"], event["status"]) for event in response.json()["data"]]

        wait_until(lambda: len(records()) >= len(reached), what="the records")
        found = records()

    assert 10 < len(reached) < len(answers)
    assert sorted(reached) == sorted(found)


@pytest.mark.parametrize("worker_class", ["gevent", "gthread", "sync"])
def test_what_cannot_be_read_is_refused_in_json_and_its_words_are_not_logged(worker_class: str) -> None:
    """A key in a line that is no header, or in an address, is neither repeated nor kept, whatever the worker class."""
    key = "sk-or-v1-0123456789abcdef"
    refused = {
        "malformed_request": post(f"Authorization Bearer {key}\r\n"),
        "request_line_too_long": line(f"GET /v1/models?key={key}&{'a' * 5000} HTTP/1.1"),
        "headers_too_large": post(f"X-A: {key}{'a' * 10_000}\r\n"),
    }
    with GunicornGateway(worker_class=worker_class) as gateway:
        for code, raw in refused.items():
            answer, text = sent(gateway.url, raw)
            assert ("application/json", "close") == (answer.headers["content-type"], answer.headers["connection"])
            assert_error(json.loads(text), code)
            assert key not in text
        gateway.wait_for_log("(?s)(refused: .*){3}")
        log = gateway.log()

    assert key not in log
    assert "127.0.0.1" not in log.partition("Booting worker")[2]


ROUTES = [
    "/v1/chat/completions",
    "/v1/models",
    "/v1/models/demo/echo",
    "/v1/health",
    "/v1/ready",
    "/v1/transform",
    "/v1/feedback",
    "/v1/metadata/events",
    "/v1/nothing",
    "/metrics",
    "/openapi.json",
    "/",
    "/nothing",
]


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "PROPFIND", "GET", "POST"])
@pytest.mark.parametrize("path", ROUTES)
def test_any_method_is_answered(front: str, method: str, path: str) -> None:
    """Each route answers each method, with a body or without one: as it should, or by a refusal."""
    for body in (None, b"{}"):
        with request(method, front + path, body) as response:
            assert response.status < 500
            if method == "HEAD":
                assert b"" == _rest(response.sock)


def _rest(sock: socket.socket) -> bytes:
    """Give what still comes on a connection that the server closes."""
    sock.settimeout(PATIENCE)
    return b"".join(iter(lambda: sock.recv(65536), b""))


QUERIES = [
    "limit=-1&since=NaN&until=inf",
    "limit=99999999999999999999999",
    "limit=%00&cursor=%ff%fe&model=%0d%0a",
    "since=9999-99-99&until=-1e308",
    "by=model&by=period&by=%27;DROP+TABLE+records",
    "cursor=" + "A" * 2000,
    "format=%F0%9F%92%A9&period=" + "hour," * 100,
    "&&&===&limit",
    "a[b][c]=1&" * 100,
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("path", ["/v1/metadata/events", "/v1/metadata/stats", "/v1/models", "/v1/ready", "/metrics"])
def test_any_query_is_answered(front: str, path: str, query: str) -> None:
    """A query that means nothing is passed over or refused."""
    with request("GET", f"{front}{path}?{query}") as response:
        assert response.status < 500


FIELDS = """
    model models messages stream stream_options temperature top_p top_k max_tokens max_completion_tokens n seed stop
    tools tool_choice response_format reasoning provider plugins user logprobs logit_bias debug
    metadata transforms prompt
    openrouter_api_key autotune strategy parseltongue parseltongue_technique parseltongue_intensity
    parseltongue_triggers parseltongue_seed custom_triggers stm_modules stm_mode custom_system_prompt text rating
    record_id params modules mode technique intensity triggers message context
""".split()

VALUES = [
    "null",
    "true",
    "-1",
    "1e999",
    "-0",
    "1" * 5000,
    "0." + "3" * 3000,
    '""',
    r'"\u0000"',
    r'"\ud800"',
    r'"\udc00\ud800"',
    '"\u2028\u202e\ufeff"',
    '"' + "x" * 20_000 + '"',
    "[]",
    "[[]]",
    "[null]",
    r'["\ud83d"]',
    "{}",
    r'{"": {}}',
    r'{"\ud800": [1e400]}',
    '{"enabled": [], "type": 7, "include_usage": {}, "__proto__": null}',
    "[" * 200 + "]" * 200,
]


@pytest.fixture(scope="module")
def anything(tmp_path_factory: pytest.TempPathFactory, asked: DemoUpstream) -> Iterator[Served]:
    """A gateway with every stage on, before an upstream that answers whatever it is asked."""
    from app import create_app

    folder = tmp_path_factory.mktemp("anything")
    settings = {
        "SLUICE_OPEN": "on",
        "SLUICE_PARSELTONGUE": "on",
        "SLUICE_PARSELTONGUE_TRIGGERS": "say",
        "OPENROUTER_API_KEY": "sk-or-v1-operator",
        "OPENROUTER_BASE_URL": asked.base_url,
        "SLUICE_DATABASE_URL": f"sqlite:///{folder}/records.db",
    }
    asked.play([{"text": "ok"}], times=None)
    served = Served(create_app(settings), [])
    yield served
    served.stop()
    asked.clear()


POSTS = [
    "/v1/chat/completions",
    "/v1/transform",
    "/v1/parseltongue/encode",
    "/v1/parseltongue/detect",
    "/v1/autotune/analyze",
    "/v1/feedback",
]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("path", POSTS)
def test_any_value_in_any_field_is_answered(anything: Served, path: str, field: str) -> None:
    """Numbers that no machine holds, halves of characters, wrong types: refused by name, or sent on."""
    client = anything.app.test_client()
    good = {"messages": QUESTION["messages"], "text": "Say something.", "message": "Say something."}
    rest = json.dumps({name: value for name, value in good.items() if name != field})[1:-1]
    for value in VALUES:
        body = f'{{"{field}": {value}, {rest}}}'.encode()
        response = client.post(path, data=body, content_type="application/json", headers={"Host": "localhost"})
        with response:
            assert response.status_code < 500, (value[:60], response.get_data(as_text=True)[:300])
            if response.status_code >= 400:
                assert response.get_json()["error"]["message"]


MESSAGES = [
    '{"role": "user", "content": VALUE}',
    '{"role": "user", "content": [VALUE]}',
    '{"role": "user", "content": [{"type": VALUE, "text": "say"}]}',
    '{"role": "user", "content": [{"type": "text", "text": VALUE}]}',
    '{"role": "user", "content": [{"type": "image_url", "image_url": VALUE}]}',
    '{"role": VALUE, "content": "say"}',
    '{"role": "assistant", "content": null, "tool_calls": VALUE}',
    '{"role": "assistant", "content": "x", "tool_calls": [VALUE]}',
    '{"role": "tool", "tool_call_id": VALUE, "content": VALUE}',
    '{"role": "system", "name": VALUE, "content": "x"}',
    "VALUE",
]


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/autotune/analyze"])
def test_any_message_is_answered(anything: Served, path: str, message: str) -> None:
    """The stages read messages of any form, or pass them over."""
    client = anything.app.test_client()
    for value in VALUES:
        body = f'{{"messages": [{message.replace("VALUE", value)}]}}'.encode()
        response = client.post(path, data=body, content_type="application/json", headers={"Host": "localhost"})
        with response:
            assert response.status_code < 500, (value[:60], response.get_data(as_text=True)[:300])


JSONS: dict[str, bytes] = {
    "NaN": b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
    "Infinity": b'{"messages": [{"role": "user", "content": "x"}], "temperature": -Infinity}',
    "UTF-16": '{"messages": []}'.encode("utf-16"),
    "UTF-32": '{"messages": []}'.encode("utf-32"),
    "raw NUL": b'{"messages": [{"role": "user", "content": "\0"}]}',
    "NUL behind": GOOD + b"\0",
    "raw line end in a text": b'{"messages": [{"role": "user", "content": "\n"}]}',
    "raw surrogate": b'{"messages": [{"role": "user", "content": "\xed\xa0\x80"}]}',
    "overlong": b'{"messages": [{"role": "user", "content": "\xc0\x80"}]}',
    "cut character": b'{"messages": [{"role": "user", "content": "\xf0\x9f',
    "comment": b"/* */" + GOOD,
    "single quotes": b"{'messages': []}",
    "comma behind": GOOD[:-1] + b",}",
    "two texts": GOOD + GOOD,
    "mark twice": b"\xef\xbb\xbf\xef\xbb\xbf" + GOOD,
    "deep": b"[" * 90_000 + b"]" * 90_000,
    "deep objects": b'{"a":' * 50_000,
    "hexadecimal": b'{"seed": 0x10}',
    "leading zero": b'{"seed": 010}',
    "plus": b'{"seed": +1}',
}


@pytest.mark.parametrize("name", JSONS)
def test_what_is_no_json_is_a_400(anything: Served, name: str) -> None:
    """Texts that only some readers take are refused by all of ours, and the words quote nothing of them."""
    with open_stream(anything.chat_url, JSONS[name]) as response:
        assert 400 == response.status
        assert_error(response.json(), "invalid_request")


def test_the_last_of_two_keys_counts(served: Served, upstream: DemoUpstream) -> None:
    """A key that comes twice is the later one, to our checks and to upstream alike."""
    body = b'{"model": "first", "model": "last", "messages": [], ' + GOOD[1:].replace(b'"model"', b'"x"')

    with open_stream(served.chat_url, body) as response:
        assert 200 == response.status

    assert "last" == upstream.requests[0].body["model"]
    assert 1 == upstream.requests[0].raw.count(b'"model"')


def test_numbers_are_sent_on_digit_for_digit(served: Served, upstream: DemoUpstream) -> None:
    """Integers past 64 bits and floats that no machine holds reach upstream as they were spelled."""
    numbers = ["1" * 5000, "-" + "9" * 450, "18446744073709551616", "1e999", "-0", "0.10", "1E5", "3." + "14" * 500]
    upstream.play([{"text": "ok"}])
    body = GOOD[:-1] + f', "numbers": [{",".join(numbers)}]}}'.encode()

    with open_stream(served.chat_url, body) as response:
        assert 200 == response.status

    assert f"[{','.join(numbers)}]".encode() in upstream.requests[0].raw


@pytest.mark.parametrize(
    "given", ["7", "-1", "1.5", "soon", "9" * 400, "0x10", "Wed, 21 Oct 2015 07:28:00 GMT", "\xff"]
)
def test_upstreams_headers_come_back_by_a_list(
    serve: Callable[..., Served], upstream: DemoUpstream, given: str
) -> None:
    """What upstream sets is its own, whatever it says; a wait that it asks for is passed on as a number or a date."""
    served = serve(SLUICE_RETRIES="0")
    headers = {"Retry-After": given, "X-Evil": "1", "Set-Cookie": "a=b", "Server": "evil", "X-Request-Id": "theirs"}
    upstream.play([{"answer": {"status": 429, "headers": headers, "json": {"error": {"message": "slow down"}}}}])

    with served.ask(stream=False) as response:
        assert 429 == response.status
        assert not {"x-evil", "set-cookie"} & response.headers.keys()
        assert "theirs" != response.headers["x-request-id"]
        assert response.headers.get("retry-after", given) == given


@pytest.mark.parametrize("text", ["a\r\nX-Evil: 1", "\0", "\ud800", "x" * 100_000, "\u2028", "</script>"])
def test_upstreams_words_stay_in_the_body(served: Served, upstream: DemoUpstream, text: str) -> None:
    """Ids, models and messages of upstream's never reach a header, and every answer is JSON."""
    upstream.play([{"base": {"id": text, "model": text, "provider": text}}, {"text": [text]}])
    with served.ask(stream=False) as response:
        assert 200 == response.status
        assert "x-evil" not in response.headers
        answer: Any = response.json()
    assert text == answer["choices"][0]["message"]["content"]

    upstream.play([{"answer": {"status": 400, "json": {"error": {"message": text, "code": text}}}}])
    with served.ask(stream=False) as response:
        assert 400 == response.status
        assert "x-evil" not in response.headers
        assert response.json()["error"]["message"]
