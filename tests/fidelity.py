"""What a client must receive for what upstream sent: an oracle, written from the promise and not from the code.

Slow and plain on purpose. Each function walks over all events of one answer and applies one line of the promise.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["expected_events"]

Event = dict[str, Any]

_SHARED = ("id", "object", "created", "model", "provider", "system_fingerprint", "service_tier", "choices")
_NO_ROLE = object()
_NUMBERED = ("reasoning_details", "images", "annotations")


def expected_events(
    events: list[Event], completion_id: str, *, usage_asked: bool = False, debug_asked: bool = False
) -> list[Event]:
    """Give the data events of a good answer that ``[DONE]`` ended, our own metadata left aside."""
    events = json.loads(json.dumps(events))  # and so no two share a part
    touched = [_take(event, debug_asked) for event in events]
    usages = _usages(events)
    _shape(events)
    events = _head(events, completion_id)
    touched = [was or now for was, now in zip(touched, _roles(events), strict=True)]
    _tools(events)
    _numbers(events)
    relayed, ends = _split(events, touched)
    head = {key: events[0][key] for key in ("id", "object", "created", "model")}
    ends += _missing_ends(events, ends, head)
    found = [usage for usage in usages if isinstance(usage, dict)]
    last = [{**head, "choices": [], "usage": found[-1]}] if usage_asked and found else []
    return relayed + ends + last


def _take(event: Event, debug_asked: bool) -> bool:
    """Take out what has no place in a chunk; tell whether anything was."""
    touched = "usage" in event
    if "error" in event and not event["error"]:
        del event["error"]
        touched = True
    if "debug" in event and not debug_asked:
        del event["debug"]
        touched = True
    for choice in event["choices"] if isinstance(event.get("choices"), list) else []:
        if isinstance(choice, dict):
            touched |= "usage" in choice
            if "error" in choice and not choice["error"]:
                del choice["error"]
                touched = True
    return touched


def _usages(events: list[Event]) -> list[Any]:
    """Take usage out of events and choices."""
    found = []
    for event in events:
        choices = event.get("choices") if isinstance(event.get("choices"), list) else []
        holders = [holder for holder in (event, *choices) if isinstance(holder, dict)]
        found += [holder.pop("usage") for holder in holders if "usage" in holder]
    return found


def _shape(events: list[Event]) -> None:
    for event in events:
        choices = event.get("choices")
        event["choices"] = choices if isinstance(choices, list) else []
        for place, choice in enumerate(event["choices"]):
            if not isinstance(choice, dict):
                continue
            if not _is_int(choice.get("index")):
                choice["index"] = place
            if not isinstance(choice.get("delta"), dict):
                choice["delta"] = {}
            if "finish_reason" in choice and not choice["finish_reason"]:
                choice["finish_reason"] = None
        event["choices"] = [choice for choice in event["choices"] if isinstance(choice, dict)]


def _head(events: list[Event], completion_id: str) -> list[Event]:
    """Make id, created and model constant; put what was missing in front."""
    first = events[0]
    model = first["model"] if isinstance(first.get("model"), str) else ""
    head = {
        "id": completion_id,
        "object": "chat.completion.chunk",
        "created": first["created"] if _is_int(first.get("created")) else "NOW",
        "model": model,
    }
    made = []
    for event in events:
        for key in ("id", "created", "model"):
            if key in event:
                event[key] = head[key]
        made.append({key: head[key] for key in head if key not in event} | event)
    return made


def _roles(events: list[Event]) -> list[bool]:
    """Leave a role in each choice's first chunk only."""
    begun: set[int] = set()
    touched = []
    for event in events:
        removed = False
        for choice in event["choices"]:
            delta = choice["delta"]
            if choice["index"] in begun:
                removed |= delta.pop("role", _NO_ROLE) is not _NO_ROLE
            elif not (isinstance(delta.get("role"), str) and delta["role"]):
                delta.pop("role", None)
                choice["delta"] = {"role": "assistant"} | delta
            begun.add(choice["index"])
        touched.append(removed)
    return touched


def _tools(events: list[Event]) -> None:
    calls_of: dict[int, dict[int, dict[str, Any]]] = {}
    for event in events:
        for choice in event["choices"]:
            fragments = choice["delta"].get("tool_calls")
            if fragments is None:
                continue
            fragments = fragments if isinstance(fragments, list) else [fragments]
            calls = calls_of.setdefault(choice["index"], {})
            used: list[int] = []
            for place, fragment in enumerate(fragments):
                if isinstance(fragment, dict):
                    fragments[place] = _tool(fragment, calls, used)
            choice["delta"]["tool_calls"] = fragments


def _tool(fragment: Event, calls: dict[int, dict[str, Any]], used: list[int]) -> Event:
    function = fragment.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not _is_int(fragment.get("index")):
        fragment = {"index": _tool_index(fragment.get("id"), name, calls, used)} | {
            key: value for key, value in fragment.items() if key != "index"
        }
    used.append(fragment["index"])
    seen = calls.setdefault(fragment["index"], {})
    if fragment.get("id") and seen.get("id") and fragment["id"] != seen["id"]:
        seen = calls[fragment["index"]] = {}
    for holder, key in ((fragment, "id"), (fragment, "type"), (function, "name")):
        if not isinstance(holder, dict) or key not in holder:
            continue
        value = holder[key]
        if value is None or (key in seen and (value == "" or value == seen[key])):
            del holder[key]
        elif not seen.get(key):
            seen[key] = value
    if isinstance(function, dict) and "arguments" in function and not isinstance(function["arguments"], str):
        function["arguments"] = _as_text(function["arguments"])
    return fragment


def _tool_index(identity: Any, name: Any, calls: dict[int, dict[str, Any]], used: list[int]) -> int:
    """Find the call that a fragment without an index belongs to: by id, else the last one, unless it names another."""
    if not calls:
        return 0
    last = max(calls)
    if identity:
        for index, seen in calls.items():
            if seen.get("id") == identity:
                return index
        return last + 1
    if name and (last in used or (calls[last].get("name") and calls[last]["name"] != name)):
        return last + 1
    return last


def _numbers(events: list[Event]) -> None:
    """Number list items that lack an index: pieces of one reasoning detail share one, all else counts on."""
    last_of: dict[tuple[int, str], Event] = {}
    for event in events:
        for choice in event["choices"]:
            for key in _NUMBERED:
                items = choice["delta"].get(key)
                for item in items if isinstance(items, list) else []:
                    if isinstance(item, dict):
                        place = (choice["index"], key)
                        last_of[place] = _number(item, last_of.get(place), key == "reasoning_details")


def _number(item: Event, last: Event | None, joins: bool) -> Event:
    ids = {item.get("id"), last.get("id") if last else None} - {None}
    if not _is_int(item.get("index")):
        if last is None:
            item["index"] = 0
        elif joins and last["index"] >= 0 and last.get("type") == item.get("type") and len(ids) < 2:
            item["index"] = last["index"]
        else:
            item["index"] = last["index"] + 1
    same = last is not None and last["index"] == item["index"]
    return {
        "index": item["index"],
        "type": item.get("type"),
        "id": item.get("id") or (last["id"] if last is not None and same else None),
    }


def _split(events: list[Event], touched: list[bool]) -> tuple[list[Event], list[Event]]:
    """Part text from ends, drop what says nothing; ends come after all else."""
    relayed: list[Event] = []
    ends: list[Event] = []
    ended: set[int] = set()
    for event, was_touched in zip(events, touched, strict=True):
        stay, leave = [], []
        for choice in event["choices"]:
            text, end = _halves(choice, choice["index"] in ended)
            stay += [text] if text else []
            leave += [end] if end else []
            ended |= {end["index"]} if end else set()
        says = any(_says(choice, was_touched) for choice in stay)
        extra = any(value is not None for key, value in event.items() if key not in _SHARED)
        if says or (extra and not leave):
            relayed.append(event | {"choices": stay})
        shared = {key: value for key, value in event.items() if key in _SHARED}
        for place, end in enumerate(leave):
            ends.append((event if place == 0 and not says else shared) | {"choices": [end]})
    return relayed, ends


def _halves(choice: Event, has_ended: bool) -> tuple[Event | None, Event | None]:
    if choice.get("finish_reason") is None:
        return choice, None
    reason = choice["finish_reason"]
    has_text = any(not _is_nothing(value) for key, value in choice["delta"].items() if key != "role")
    end = choice | {"finish_reason": reason if isinstance(reason, str) else str(reason)}
    if not has_text:
        return None, None if has_ended else end
    text = choice | {"finish_reason": None}
    if "native_finish_reason" in text:
        text["native_finish_reason"] = None
    end |= {"delta": {}}
    if "logprobs" in end:
        end["logprobs"] = None
    return text, None if has_ended else end


def _says(choice: Event, touched: bool) -> bool:
    if any(value is not None for key, value in choice.items() if key not in ("index", "delta", "finish_reason")):
        return True
    if touched:
        return any(not _is_nothing(value) for value in choice["delta"].values())
    return bool(choice["delta"])


def _missing_ends(events: list[Event], ends: list[Event], head: Event) -> list[Event]:
    ended = [end["choices"][0]["index"] for end in ends]
    made = []
    for index in dict.fromkeys(choice["index"] for event in events for choice in event["choices"]):
        if index not in ended:
            own = [choice["delta"] for event in events for choice in event["choices"] if choice["index"] == index]
            called = any(isinstance(call, dict) for delta in own for call in delta.get("tool_calls") or [])
            reason = "tool_calls" if called else "stop"
            made.append(head | {"choices": [{"index": index, "delta": {}, "finish_reason": reason}]})
    return made


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_nothing(value: Any) -> bool:
    return value is None or value in ("", [], {})
