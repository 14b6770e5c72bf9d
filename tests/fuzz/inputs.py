"""Inputs for the targets, put together from the pieces that real streams and requests are made of."""

from __future__ import annotations

import json

from hypothesis import strategies as st

__all__ = ["INPUTS"]

_TEXT = st.text(max_size=12)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    _TEXT,
    st.sampled_from(["stop", "assistant", "user", "text", "a story", "\ud800", ""]),
)
_NAMES = st.sampled_from(
    "id object created model provider choices delta content role index finish_reason usage error message code debug"
    " tool_calls function name arguments type reasoning reasoning_details images annotations logprobs".split()
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES | _TEXT, inner, max_size=5),
    max_leaves=12,
)
_DELTAS = st.dictionaries(_NAMES, _VALUES, max_size=3)
_CHOICES = st.fixed_dictionaries(
    {"delta": _DELTAS | _SCALARS},
    optional={"index": st.integers(-1, 3) | _SCALARS, "finish_reason": st.sampled_from(["stop", "error", None, 7, ""])},
)
_CHUNKS = st.fixed_dictionaries(
    {"choices": st.lists(_CHOICES | _SCALARS, max_size=3) | _SCALARS},
    optional={"id": _SCALARS, "model": _SCALARS, "usage": _VALUES, "error": _VALUES, "created": _SCALARS},
)
_PLAIN = st.builds(
    lambda text: {"id": "g", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}, _TEXT
)


def _dumps(value: object) -> bytes:
    return json.dumps(value).encode()


_EVENTS = (_PLAIN | _CHUNKS).map(lambda chunk: b"data: " + _dumps(chunk) + b"\n\n")
_LINES = st.one_of(
    st.sampled_from(
        [
            b"data: [DONE]\n\n",
            b": OPENROUTER PROCESSING\n\n",
            b"data:\n\n",
            b"event: error\n",
            b"data: {",
            b"\r\n",
            b"\r",
            b"\n",
            b"\xef\xbb\xbf",
            b"data",
            b"id: 1\n",
            b"retry: 3000\n",
            b"data: x\rdata: y\r\n\r\n",
            b"\xff",
            b"\xe2\x80\xa8",
        ]
    ),
    st.binary(max_size=6),
)
_SIZES = st.binary(min_size=4, max_size=4)
_STREAMS = st.builds(lambda sizes, parts: sizes + b"".join(parts), _SIZES, st.lists(_EVENTS | _LINES, max_size=10))

_MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "system", "assistant", "tool"]) | _SCALARS},
    optional={"content": _TEXT | st.lists(_VALUES, max_size=2) | _VALUES, "tool_calls": _VALUES},
)
_OWN = st.sampled_from(
    "stream model models max_tokens temperature stream_options autotune strategy parseltongue parseltongue_technique"
    " parseltongue_intensity parseltongue_triggers parseltongue_seed stm_modules stm_mode custom_system_prompt"
    " openrouter_api_key tools reasoning".split()
)
_REQUESTS = st.builds(
    lambda messages, rest: _dumps({**rest, "messages": messages}),
    st.lists(_MESSAGES, max_size=3) | _VALUES,
    st.dictionaries(_OWN | _TEXT, _VALUES, max_size=3),
)
_DOCUMENTS = st.one_of(
    _VALUES.map(_dumps),
    st.dictionaries(_NAMES, _VALUES, max_size=4).map(_dumps),
    st.sampled_from([b"1.10", b"[1e999]", b"-0", b"[1E5,0.10]", b"1" * 500, b'{"a":1,"a":2}', b" [ ] ", b'"\\ud800"']),
)

INPUTS: dict[str, st.SearchStrategy[bytes]] = {
    "lines": _STREAMS,
    "events": _STREAMS,
    "stream": _STREAMS,
    "request": _REQUESTS,
    "document": _DOCUMENTS,
    "bulk": _DOCUMENTS,
}
"""By target."""
