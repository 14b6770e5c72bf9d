"""The errors Sluice raises and the two faces they show: an HTTP status with a JSON body, or an event in a stream.

``GatewayError`` is the base. ``ConfigurationError`` stops the start, ``RequestError`` is the caller's fault (4xx),
``UpstreamError`` is what happened on the way to the model or back. Messages never hold a key or a prompt.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

__all__ = [
    "AuthenticationError",
    "BodyTimeout",
    "BudgetExceeded",
    "ClientGone",
    "ConfigurationError",
    "DeadlineExceeded",
    "Draining",
    "GatewayError",
    "HostError",
    "InternalError",
    "LengthRequired",
    "LimitsUnavailable",
    "MethodNotAllowed",
    "NotFound",
    "Overloaded",
    "PayloadTooLarge",
    "PermissionDenied",
    "RateLimited",
    "RequestError",
    "StoreAway",
    "TooManyStreams",
    "UnsupportedMediaType",
    "UpstreamConnectionError",
    "UpstreamCut",
    "UpstreamEmpty",
    "UpstreamError",
    "UpstreamProtocolError",
    "UpstreamStatusError",
    "UpstreamTimeout",
    "from_upstream",
    "mask_secrets",
    "type_for_status",
]

_SECRET = re.compile(
    r"(?<![A-Za-z])sk-[A-Za-z0-9]{0,4}-?[A-Za-z0-9_.*…-]{4,}|Bearer\s+\S+"
    # In an address: a user's password, and a key in the query.
    r"|(?<=://)[^\s/@]{1,200}@|(?<=[?&])(?:(?:api|access)?[-_]?(?:key|token))=[^\s&\"'<>)]+",
    re.IGNORECASE,
)


def mask_secrets(text: str, *known: str | None) -> str:
    """Replace anything that looks like a key, and each *known* secret, by ``[masked]``."""
    for secret in known:
        if secret and len(secret) >= 8:  # a shorter one is none, and would mask syllables
            text = text.replace(secret, "[masked]")
    return _SECRET.sub("[masked]", text)


def type_for_status(status: int) -> str:
    """Give the OpenAI error type that belongs to an HTTP *status*."""
    named = {401: "authentication_error", 402: "insufficient_quota", 403: "permission_error", 429: "rate_limit_error"}
    if status in named:
        return named[status]
    return "server_error" if status >= 500 else "invalid_request_error"


class GatewayError(Exception):
    """Base of every error of this package.

    Attributes:
        code: stable word for programs.
        status: HTTP status of the JSON face.
        end_reason: what the record says the request ended with.
        retry_after: seconds a client should wait, or None.
        param: the request field at fault, or None.
        metadata: what upstream said beside the message, or None.
        headers: further response headers of the JSON face.
    """

    code: str = "internal_error"
    status: int = 500
    end_reason: str = "internal_error"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        status: int | None = None,
        metadata: Any = None,
        retry_after: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.metadata = metadata
        self.retry_after = retry_after
        self.headers = headers or {}
        self.retried = False
        if code is not None:
            self.code = code
        if status is not None:
            self.status = status

    @property
    def type(self) -> str:
        """OpenAI's error type, which follows from the status."""
        return type_for_status(self.status)

    @property
    def own_words(self) -> str:
        """The message without what a client or upstream wrote, for the record and the log."""
        return self.message.partition(", got ")[0]

    def to_object(self) -> dict[str, Any]:
        """Give the error object ``{message, type, param, code, metadata}``; ``metadata`` only where there is some."""
        found: dict[str, Any] = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        if self.metadata is not None:
            found["metadata"] = self.metadata
        return found

    def to_headers(self) -> dict[str, str]:
        """Give the headers of the JSON face: Retry-After, and x-should-retry once we have retried ourselves."""
        found = dict(self.headers)
        if self.retry_after is not None:
            found["Retry-After"] = self.retry_after
        if self.retried:
            found["x-should-retry"] = "false"
        return found


class ConfigurationError(GatewayError):
    """A setting is missing, unknown or out of bounds; raised at start."""

    code = "configuration_error"


class InternalError(GatewayError):
    """A fault of ours; its cause is in the log only."""


class HostError(GatewayError):
    """The application around the gateway does what a stream does not survive; said to whoever sets it up."""

    code = "host_error"


class RequestError(GatewayError):
    """The request is not one we can send on."""

    code = "invalid_request"
    status = 400
    end_reason = "rejected"


class AuthenticationError(RequestError):
    """No key, or one that is not known."""

    code = "invalid_api_key"
    status = 401

    @property
    def type(self) -> str:
        """The type that OpenAI gives this error, whose status has another where an upstream is refused."""
        return "invalid_request_error"


class BudgetExceeded(RequestError):
    """The caller's key has spent what it may."""

    code = "budget_exceeded"
    status = 402


class PermissionDenied(RequestError):
    """Known caller, or known place, without the right to do this."""

    code = "permission_denied"
    status = 403


class NotFound(RequestError):
    """No such route or model."""

    code = "not_found"
    status = 404


class MethodNotAllowed(RequestError):
    """The route exists for other methods."""

    code = "method_not_allowed"
    status = 405


class BodyTimeout(RequestError):
    """The body did not come in time."""

    code = "body_timeout"
    status = 408


class LengthRequired(RequestError):
    """The body came without Content-Length (RFC 9110, section 15.5.12)."""

    code = "length_required"
    status = 411


class PayloadTooLarge(RequestError):
    """The body is over the limit."""

    code = "payload_too_large"
    status = 413


class UnsupportedMediaType(RequestError):
    """The body is not JSON by its Content-Type, or is encoded."""

    code = "unsupported_media_type"
    status = 415


class RateLimited(RequestError):
    """The caller sent more requests than it may in this time."""

    code = "rate_limit_exceeded"
    status = 429
    retryable = True


class TooManyStreams(RequestError):
    """The caller has as many requests under way as it may have."""

    code = "too_many_streams"
    status = 429
    retryable = True


class LimitsUnavailable(RequestError):
    """What limits are counted in cannot be asked, and they are not to be passed over."""

    code = "limits_unavailable"
    status = 503
    retryable = True


class Overloaded(RequestError):
    """This worker has as many streams as it may have."""

    code = "overloaded"
    status = 503
    retryable = True


class Draining(GatewayError):
    """The worker is shutting down and the stream's time is over."""

    code = "draining"
    status = 503
    end_reason = "draining"
    retryable = True


class ClientGone(GatewayError):
    """The client left; nobody reads what this says."""

    code = "client_disconnected"
    status = 499
    end_reason = "client_disconnected"


class DeadlineExceeded(GatewayError):
    """The whole request took longer than SLUICE_DEADLINE."""

    code = "deadline"
    status = 504
    end_reason = "deadline"


class StoreAway(GatewayError):
    """The record's database cannot be asked."""

    code = "store_unavailable"
    status = 503


class UpstreamError(GatewayError):
    """Upstream failed, or said that it failed."""

    code = "upstream_error"
    status = 502
    end_reason = "upstream_error"


class UpstreamConnectionError(UpstreamError):
    """No connection, or none that lived until the answer began."""

    code = "upstream_unreachable"
    retryable = True


class UpstreamTimeout(UpstreamError):
    """Upstream stayed silent past a limit."""

    code = "upstream_timeout"
    status = 504
    end_reason = "upstream_timeout"


class UpstreamStatusError(UpstreamError):
    """Upstream answered with an error status, or with an error object inside a 200."""

    @property
    def own_words(self) -> str:
        """The status alone: upstream's message can quote the prompt."""
        return self.message if self.code == "upstream_auth" else f"upstream failed with status {self.status}"


class UpstreamProtocolError(UpstreamError):
    """Upstream sent what is no chat completion."""

    code = "upstream_protocol"


class UpstreamCut(UpstreamError):
    """The answer broke off."""

    code = "upstream_cut"
    end_reason = "upstream_cut"


class UpstreamEmpty(UpstreamError):
    """The answer ended before it began."""

    code = "upstream_empty"
    end_reason = "upstream_empty"


def from_upstream(error: Any, http_status: int, *, own_key: bool, secret: str | None = None) -> UpstreamStatusError:
    """Make our error of upstream's error object (or text), which came with *http_status*.

    Args:
        error: what stood under ``error``: OpenRouter's object, or text, or anything.
        own_key: whether the call was made with the operator's key; a 401 is then told neutrally.
        secret: the key of the call, which the text must not show.
    """
    found = error if isinstance(error, dict) else {"message": error if isinstance(error, str) else None}
    metadata = found.get("metadata")
    code = found.get("code") or found.get("http_status")
    status = _status_of(code, http_status)
    if own_key and status == 401:
        return UpstreamStatusError(
            "upstream refused the gateway's own key; its operator has to look at OPENROUTER_API_KEY",
            code="upstream_auth",
            status=502,
        )
    words = (metadata.get("error_type") if isinstance(metadata, dict) else None, found.get("error_type"), code)
    word = next((word for word in words if word and isinstance(word, (str, int))), status)
    message, param = found.get("message"), found.get("param")
    if not isinstance(message, str) or not message:
        message = f"upstream failed with status {status} and gave no reason"
    return UpstreamStatusError(
        mask_secrets(message, secret),
        code=mask_secrets(str(word), secret),
        status=status,
        param=mask_secrets(param, secret) if isinstance(param, str) else None,
        metadata=_masked(metadata, secret, own_key),
    )


def _status_of(code: Any, http_status: int) -> int:
    for candidate in (code, http_status):
        if isinstance(candidate, str) and re.fullmatch("[0-9]{3}", candidate):
            candidate = int(candidate)
        if isinstance(candidate, int) and 400 <= candidate <= 599:
            return candidate
    return 502


def _masked(value: Any, secret: str | None, own_key: bool) -> Any:
    """Give *value* without secrets and, where the key is the operator's *own*, without its account's id."""
    if isinstance(value, str):
        return mask_secrets(value, secret)
    if isinstance(value, dict):
        return {key: _masked(item, secret, own_key) for key, item in value.items() if not own_key or key != "user_id"}
    if isinstance(value, list):
        return [_masked(item, secret, own_key) for item in value]
    return value
