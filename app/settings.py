"""Every knob of Sluice, with its unit, default and bounds; read once, checked at start.

Each setting is an environment variable and, under the same full name, a key of the Flask config, which wins.
Durations are seconds.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .errors import ConfigurationError
from .url import taken_apart

__all__ = ["Settings"]

# Names with our prefix that are not for this class: gunicorn.conf.py and `sluice chat` read the first, Kubernetes
# injects the others.
_FOREIGN = re.compile(r"SLUICE_(WORKER_CLASS|GRACEFUL_TIMEOUT|KEY)|SLUICE_SERVICE_.*|SLUICE_PORT(_.*)?")


def _setting(
    name: str, default: Any, meaning: str, *, low: float | None = None, high: float = math.inf, **more: Any
) -> Any:
    metadata = {"name": name, "meaning": meaning, "low": low, "high": high, **more}
    return field(default=default, repr=not more.get("secret", False), metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One process' settings; see each field's metadata for its name, meaning and bounds.

    Raises:
        ConfigurationError: a value is of the wrong type or out of bounds.
    """

    openrouter_api_key: str | None = _setting(
        "OPENROUTER_API_KEY", None, "the operator's key for upstream", secret=True, ascii=True
    )
    openrouter_base_url: str = _setting(
        "OPENROUTER_BASE_URL",
        "https://openrouter.ai/api/v1",
        "upstream's base URL, OpenAI-compatible",
        secret=True,
        url=True,
    )
    open: bool = _setting("SLUICE_OPEN", False, "serve without keys, to Host localhost and SLUICE_ALLOWED_HOSTS only")
    allowed_hosts: tuple[str, ...] = _setting(
        "SLUICE_ALLOWED_HOSTS", (), "further Host names served in open mode, comma-separated"
    )
    api_keys: tuple[str, ...] = _setting(
        "SLUICE_API_KEYS", (), "gateway keys: `label:key` or `label:sha256:hex`, comma-separated", secret=True
    )
    api_keys_file: str | None = _setting(
        "SLUICE_API_KEYS_FILE", None, "TOML file of gateway keys and their rules; read again when it changes"
    )
    client_keys: bool | None = _setting(
        "SLUICE_CLIENT_KEYS", None, "clients may bring an OpenRouter key; unset: on in open mode, else off"
    )
    metadata_key: str | None = _setting(
        "SLUICE_METADATA_KEY",
        None,
        "bearer for metadata, metrics and dashboard; unset: they are 404 unless the gateway is open",
        secret=True,
        ascii=True,
    )
    trusted_proxies: int = _setting(
        "SLUICE_TRUSTED_PROXIES",
        0,
        "proxies in front whose X-Forwarded-For entry is believed; for limits alone",
        low=0,
        high=10,
    )
    rate_limit: str | None = _setting(
        "SLUICE_RATE_LIMIT", None, "requests per time of each key, like `60 per minute; 1000 per day`"
    )
    streams_per_key: int = _setting(
        "SLUICE_STREAMS_PER_KEY", 0, "requests each key may have under way at once; 0: any number", low=0
    )
    limit_storage: str = _setting(
        "SLUICE_LIMIT_STORAGE",
        "memory",
        "where limits are counted: memory (each worker alone) or redis://...",
        secret=True,
    )
    limit_on_failure: str = _setting(
        "SLUICE_LIMIT_ON_FAILURE",
        "allow",
        "while limits cannot be counted: allow or refuse",
        choices=("allow", "refuse"),
    )
    cors_origins: tuple[str, ...] = _setting(
        "SLUICE_CORS_ORIGINS", (), "origins whose web pages may call, comma-separated, or `*`"
    )
    default_model: str = _setting(
        "SLUICE_DEFAULT_MODEL", "nousresearch/hermes-4-70b", "model of a request that names none"
    )
    default_max_tokens: int = _setting(
        "SLUICE_DEFAULT_MAX_TOKENS", 4096, "max_tokens of a request without a limit; 0 adds none", low=0
    )
    pipeline: bool = _setting("SLUICE_PIPELINE", True, "off: a plain relay, no stage runs")
    autotune: bool = _setting("SLUICE_AUTOTUNE", True, "AutoTune fills the sampling parameters a client left out")
    strategy: str = _setting("SLUICE_STRATEGY", "adaptive", "AutoTune's strategy")
    stm_modules: tuple[str, ...] = _setting(
        "SLUICE_STM_MODULES",
        ("hedge_reducer", "direct_mode"),
        "STM modules, comma-separated; empty: none",
        may_be_empty=True,
    )
    stm_mode: str = _setting("SLUICE_STM_MODE", "correct", "STM's mode: correct or live")
    stm_max_chars: int = _setting("SLUICE_STM_MAX_CHARS", 1_000_000, "characters a choice may have for STM", low=1)
    parseltongue: bool = _setting("SLUICE_PARSELTONGUE", False, "perturb trigger words in user messages")
    parseltongue_technique: str = _setting("SLUICE_PARSELTONGUE_TECHNIQUE", "leetspeak", "default technique")
    parseltongue_intensity: str = _setting("SLUICE_PARSELTONGUE_INTENSITY", "medium", "default intensity")
    parseltongue_triggers: tuple[str, ...] = _setting(
        "SLUICE_PARSELTONGUE_TRIGGERS", (), "words to perturb, comma-separated"
    )
    upstream_params: str = _setting(
        "SLUICE_UPSTREAM_PARAMS",
        "openrouter",
        "openai: upstream knows OpenAI's parameters only",
        choices=("openrouter", "openai"),
    )
    heartbeat: float = _setting("SLUICE_HEARTBEAT", 10.0, "longest silence towards a client", low=0.1, high=300)
    connect_timeout: float = _setting("SLUICE_CONNECT_TIMEOUT", 5.0, "to connect to upstream", low=0.05, high=120)
    first_token_timeout: float = _setting(
        "SLUICE_FIRST_TOKEN_TIMEOUT", 120.0, "from request sent to upstream's first data event, each attempt", low=0.1
    )
    idle_timeout: float = _setting("SLUICE_IDLE_TIMEOUT", 60.0, "upstream's silence after its first event", low=0.1)
    deadline: float = _setting("SLUICE_DEADLINE", 900.0, "the whole request", low=0.1)
    retries: int = _setting("SLUICE_RETRIES", 3, "further attempts after the first", low=0, high=10)
    retry_backoff: float = _setting(
        "SLUICE_RETRY_BACKOFF", 1.0, "wait before the first retry, doubled each time", low=0, high=60
    )
    retry_after_max: float = _setting(
        "SLUICE_RETRY_AFTER_MAX", 30.0, "longest Retry-After that is waited for; a longer one gives up", low=0
    )
    stream_errors: str = _setting(
        "SLUICE_STREAM_ERRORS",
        "event",
        "early failures of streams: an event in the stream, or the HTTP status",
        choices=("event", "status"),
    )
    commit_after: float = _setting(
        "SLUICE_COMMIT_AFTER", 5.0, "with `status`: longest time the headers are held back", low=0.05, high=60
    )
    max_streams: int = _setting("SLUICE_MAX_STREAMS", 1000, "open requests a worker", low=1, high=100_000)
    max_body_bytes: int = _setting("SLUICE_MAX_BODY_BYTES", 33_554_432, "largest request body in bytes", low=1024)
    max_values: int = _setting(
        "SLUICE_MAX_VALUES",
        100_000,
        "JSON values in a request body: reading takes time and memory by the value",
        low=100,
    )
    max_messages: int = _setting("SLUICE_MAX_MESSAGES", 10_000, "messages in a request", low=1)
    body_timeout: float = _setting(
        "SLUICE_BODY_TIMEOUT", 120.0, "a request body that takes longer is given up", low=0.2, high=3600
    )
    max_event_bytes: int = _setting("SLUICE_MAX_EVENT_BYTES", 16_777_216, "largest upstream event in bytes", low=1024)
    max_answer_bytes: int = _setting(
        "SLUICE_MAX_ANSWER_BYTES",
        134_217_728,
        "largest answer to a request without stream, in bytes of its chunks",
        low=1024,
    )
    client_stall_timeout: float = _setting(
        "SLUICE_CLIENT_STALL_TIMEOUT", 60.0, "a client that takes nothing for this long is cut off", low=0.2
    )
    database_url: str | None = _setting(
        "SLUICE_DATABASE_URL",
        None,
        "records: sqlite:///file or postgresql://...; unset: a file in the instance folder",
        secret=True,
    )
    retention_days: float = _setting(
        "SLUICE_RETENTION_DAYS", 31.0, "age in days at which records are removed; 0: never", low=0, high=36_500
    )
    models_ttl: float = _setting("SLUICE_MODELS_TTL", 300.0, "age at which the model list is fetched anew", low=0)
    upstream_proxy: str | None = _setting(
        "SLUICE_UPSTREAM_PROXY", None, "HTTP proxy for upstream", secret=True, url=True
    )
    ca_bundle: str | None = _setting("SLUICE_CA_BUNDLE", None, "file or folder of CA certificates; unset: certifi's")
    referer: str | None = _setting("SLUICE_REFERER", None, "HTTP-Referer sent upstream, for attribution", ascii=True)
    title: str | None = _setting("SLUICE_TITLE", None, "X-OpenRouter-Title sent upstream, for attribution", ascii=True)
    log_format: str = _setting(
        "SLUICE_LOG_FORMAT", "text", "the log: `text` for people, `json` for machines", choices=("text", "json")
    )
    log_level: str = _setting(
        "SLUICE_LOG_LEVEL",
        "info",
        "least level that is logged; a request's line is `info`",
        choices=("debug", "info", "warning", "error"),
    )
    fetch_generations: bool = _setting(
        "SLUICE_FETCH_GENERATIONS",
        False,
        "fetch the final figures of answers that broke off from OpenRouter afterwards",
    )
    tracing: bool = _setting(
        "SLUICE_TRACING", False, "traces for OpenTelemetry (extra `otel`), sent as the `OTEL_*` variables say"
    )
    demo: bool = _setting("SLUICE_DEMO", False, "upstream is the embedded demo; set by `serve`")

    def __post_init__(self) -> None:
        for spec in fields(self):
            _check(spec.metadata, str(spec.type), getattr(self, spec.name))
        if self.ca_bundle and not os.path.exists(self.ca_bundle):
            raise ConfigurationError(f"SLUICE_CA_BUNDLE: expected a file or folder, {self.ca_bundle!r} is not there")

    @property
    def takes_client_keys(self) -> bool:
        """Whether a client may bring its own OpenRouter key."""
        return self.open if self.client_keys is None else self.client_keys

    @property
    def tick(self) -> float:
        """Seconds between two looks at the open streams: fine for the shortest limit, coarse enough to be cheap."""
        shortest = min(
            self.heartbeat,
            self.first_token_timeout,
            self.idle_timeout,
            self.deadline,
            self.client_stall_timeout,
            self.body_timeout,
        )
        return min(max(shortest / 20, 0.02), 0.4)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read settings from environment variables.

        Raises:
            ConfigurationError: a value is unreadable or out of bounds, or a name with our prefix is unknown.
        """
        return cls.from_mapping(os.environ if environ is None else environ)

    @classmethod
    def from_mapping(cls, *mappings: Mapping[str, Any]) -> Settings:
        """Read settings from mappings, later ones winning; names as in the environment, values text or typed.

        Raises:
            ConfigurationError: as ``from_env``.
        """
        merged: dict[str, Any] = {}
        for mapping in mappings:
            merged.update({k: v for k, v in mapping.items() if k.startswith(("SLUICE_", "OPENROUTER_"))})
        known = {spec.metadata["name"]: spec for spec in fields(cls)}
        unknown = [k for k in merged if k.startswith("SLUICE_") and k not in known and not _FOREIGN.fullmatch(k)]
        if unknown:
            raise ConfigurationError(f"unknown setting {min(unknown)}: see the settings table in the documentation")
        values = {}
        for name, spec in known.items():
            value = merged.get(name)
            value = value.strip() if isinstance(value, str) else value
            if value is None or (value == "" and not spec.metadata.get("may_be_empty")):
                continue
            values[spec.name] = _read(name, str(spec.type), value)
        return cls(**values)


def _read(name: str, kind: str, value: Any) -> Any:
    """Turn *value*, text or already typed, into the type *kind* of its field."""
    if kind.startswith("tuple"):
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple, set, frozenset)):
            raise ConfigurationError(f"{name}: expected a comma-separated list, got {type(value).__name__}")
        return tuple(str(part).strip() for part in parts if str(part).strip())
    if kind.startswith("bool"):
        words = {
            "on": True,
            "off": False,
            "true": True,
            "false": False,
            "1": True,
            "0": False,
            "yes": True,
            "no": False,
        }
        read = words.get(str(value).strip().lower())
        if read is None:
            raise ConfigurationError(f"{name}: expected on or off, got {str(value)[:40]!r}")
        return read
    if kind in ("int", "float"):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ConfigurationError(f"{name}: expected a number, got {str(value)[:40]!r}") from None
        if not math.isfinite(number) or (kind == "int" and number != int(number)):
            raise ConfigurationError(f"{name}: expected a finite {'whole ' * (kind == 'int')}number, got {value!r}")
        return int(number) if kind == "int" else number
    return str(value).strip()


def _has_kind(kind: str, value: Any) -> bool:
    """Tell whether *value* is of the type that a field's annotation names."""
    if value is None:
        return kind.endswith("None")
    if kind.startswith("tuple"):
        return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    types: dict[str, tuple[type, ...]] = {"str": (str,), "bool": (bool,), "int": (int,), "float": (int, float)}
    word = kind.removesuffix(" | None")
    return isinstance(value, types[word]) and (word == "bool" or not isinstance(value, bool))


def _check(metadata: Mapping[str, Any], kind: str, value: Any) -> None:
    name, low, high = metadata["name"], metadata["low"], metadata["high"]
    if not _has_kind(kind, value):
        raise ConfigurationError(f"{name}: expected {kind}, got {type(value).__name__}")
    if value is None:
        return
    if low is not None and not (low <= value <= high and value != math.inf):
        raise ConfigurationError(f"{name}: expected {low:g} to {high:g}, got {str(value)[:40]}")
    if "choices" in metadata and value not in metadata["choices"]:
        raise ConfigurationError(f"{name}: expected one of {', '.join(metadata['choices'])}, got {value!r}")
    if metadata.get("ascii") and not (value.isascii() and value.isprintable()):
        raise ConfigurationError(f"{name}: expected printable ASCII only")
    if metadata.get("url") and not _is_address(value):
        raise ConfigurationError(
            f"{name}: expected an http:// or https:// address without a query; a password in it is percent-encoded"
        )


def _is_address(value: str) -> bool:
    """Tell whether *value* can be called: what cannot is told here, for libraries put it whole into their words."""
    return taken_apart(value) is not None and re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", value) is not None
