"""Inputs that a fuzzing run found to reach new places, replayed; and a short run of random ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.inputs import INPUTS
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_holds(name: str) -> None:
    """No input of the corpus, however odd, breaks what must be true of all."""
    files = sorted((CORPUS / name).iterdir())

    assert len(files) >= 10
    for file in files:
        TARGETS[name](file.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_likely_inputs_hold(name: str) -> None:
    """Nor do inputs put together from what such inputs are made of."""

    @settings(max_examples=60, deadline=None)
    @given(st.one_of(INPUTS[name], st.binary(max_size=80)))
    def hold(data: bytes) -> None:
        TARGETS[name](data)

    hold()
