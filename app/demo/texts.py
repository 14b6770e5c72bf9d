"""What the demo upstream has to say: its story, its models, its account."""

from __future__ import annotations

from typing import Any

__all__ = ["KEY", "MODELS", "STORY", "stranger"]

STORY = """\
Sure! Here is a story about a lock-keeper.

Ida kept the third lock on a canal that hardly anyone used any more. I think she was happy there. Every morning she \
walked the towpath with a tin of grease, oiled the paddles, and wrote the level of the water into a book that nobody \
had asked to see for eleven years.

One evening a barge came down without a light. The man at the tiller said that he was carrying a river. It was \
perhaps the oddest cargo she had ever let through, but he opened the hatch and there it was, coiled in the hold, \
brown and slow, with a heron standing in it up to the knees.

"Where does it go?" she asked.

"Wherever there is a bed for it," he said. "I have tried four valleys. They were all taken."

It seems like the sort of thing a sensible person would have doubted. Ida looked up the level in her book instead. \
She turned eleven years of pages, and the water had fallen by a finger's width in each of them. In my opinion, the \
book had been waiting for that question all along. The canal was probably thirsty.

So she opened all the paddles at once. The river went over the sill without a sound, stretched, and lay down in the \
canal as if it had been measured for it. By morning there were swallows under the bridge, and the heron had taken \
the lock-keeper's chair.

Ida wrote the new level into the book. Then, maybe for the first time in eleven years, she drew a line under it."""

_PARAMETERS = ["max_tokens", "reasoning", "stop", "tool_choice", "tools"]


def _model(slug: str, name: str, description: str) -> dict[str, Any]:
    return {
        "id": slug,
        "canonical_slug": slug,
        "name": name,
        "created": 1764547200,
        "description": description,
        "context_length": 32768,
        "architecture": {
            "modality": "text->text",
            "input_modalities": ["text"],
            "output_modalities": ["text"],
            "tokenizer": "Other",
            "instruct_type": None,
        },
        "pricing": {"prompt": "0", "completion": "0", "request": "0", "image": "0"},
        "top_provider": {"context_length": 32768, "max_completion_tokens": None, "is_moderated": False},
        "per_request_limits": None,
        "supported_parameters": _PARAMETERS,
        "default_parameters": None,
    }


MODELS = [
    _model("demo/echo", "Echo (demo)", "Embedded demo upstream: gives your last message back, word by word."),
    _model("demo/story", "Story (demo)", "Embedded demo upstream: tells a short story, the same one every time."),
]

KEY: dict[str, Any] = {
    "label": "demo (no real key)",
    "limit": None,
    "limit_remaining": None,
    "limit_reset": None,
    "include_byok_in_limit": False,
    "usage": 0,
    "usage_daily": 0,
    "usage_weekly": 0,
    "usage_monthly": 0,
    "byok_usage": 0,
    "byok_usage_daily": 0,
    "byok_usage_weekly": 0,
    "byok_usage_monthly": 0,
    "is_free_tier": True,
    "is_management_key": False,
    "is_provisioning_key": False,
    "creator_user_id": None,
    "rate_limit": {"requests": -1, "interval": "10s", "note": "Deprecated."},
}


def stranger(model: str) -> str:
    """What is said for a model that lives elsewhere."""
    return (
        f"Hello! This is the embedded demo upstream of the gateway, not a language model. You asked for {model}, "
        "which I cannot reach from here: everything you see was made on this machine. I think the path works, "
        "though. Try demo/echo or demo/story, or set OPENROUTER_API_KEY and start again to talk to the real thing."
    )
