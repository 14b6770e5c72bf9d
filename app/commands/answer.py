"""Shows one answer while it comes: its text on standard output, all else on standard error of a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any

from ..terminal import clean, is_terminal, styled

__all__ = ["Printer"]


class Printer:
    """Prints the first choice's text; on a terminal also the reasoning, and at the end what it took.

    Attributes:
        text: the answer as the conversation goes on from it, corrected where STM corrected it.
    """

    def __init__(self) -> None:
        self.text = ""
        self._started = time.monotonic()
        self._first_at: float | None = None
        self._count = 0
        self._model: str | None = None
        self._is_corrected = self._is_reasoning = False
        self._on_terminal = is_terminal(sys.stdout)

    def show(self, chunk: dict[str, Any]) -> None:
        """Print what a chunk adds."""
        model = chunk.get("model")
        self._model = model if isinstance(model, str) else self._model
        for choice in chunk["choices"]:
            if choice.get("index") == 0:
                self._show_delta(choice.get("delta") or {})
        facts = chunk.get("x_g0dm0d3")
        if isinstance(facts, dict) and isinstance(facts.get("final_content"), str):
            self.text, self._is_corrected = facts["final_content"], True

    def end(self, note: str = "") -> None:
        """End the line; on a terminal say what it took, and *note*."""
        if (self._on_terminal and self._count) or (self.text and not self.text.endswith("\n")):
            sys.stdout.write("\n")
        sys.stdout.flush()
        if is_terminal(sys.stderr):
            parts = [note, self._figures(), "STM has corrected it: stm_mode=live shows it so" * self._is_corrected]
            told = " · ".join(part for part in parts if part)
            if told:
                sys.stderr.write(styled(f"[{clean(told)}]", sys.stderr, dim=True) + "\n")
                sys.stderr.flush()

    def _show_delta(self, delta: dict[str, Any]) -> None:
        reasoning, text = delta.get("reasoning"), delta.get("content")
        if isinstance(reasoning, str) and reasoning and self._on_terminal:
            self._is_reasoning = True
            self._write(styled(clean(reasoning), sys.stdout, dim=True))
        if isinstance(text, str) and text:
            if self._is_reasoning:
                self._is_reasoning = False
                sys.stdout.write("\n\n")
            self.text += text
            self._write(clean(text) if self._on_terminal else text)

    def _write(self, text: str) -> None:
        if self._first_at is None:
            self._first_at = time.monotonic()
        self._count += 1
        sys.stdout.write(text)
        sys.stdout.flush()

    def _figures(self) -> str:
        if self._first_at is None:
            return ""
        since = time.monotonic() - self._first_at
        rate = f" · {self._count / since:.0f} chunks/s" if since > 0.2 else ""
        return f"{self._model or 'model unknown'} · first after {self._first_at - self._started:.2f} s{rate}"
