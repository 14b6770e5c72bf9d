"""The gateway under requests that are made up from its own OpenAPI document."""

from __future__ import annotations

import pytest

from tests.contract import ACCESS, gateway_for, hold


@pytest.mark.parametrize("access", ACCESS)
def test_no_request_that_the_document_describes_breaks_the_gateway(access: str) -> None:
    """Good and bad ones alike: no server error, and every answer has a described status, headers and form."""
    with gateway_for(access) as gateway:
        verdict = hold(gateway, access, 1, "--phases", "coverage,fuzzing", "--max-examples", "4")
        log = gateway.log()

    assert verdict.passed, verdict.report[-20_000:]
    assert verdict.cases > 200
    assert "Traceback" not in log, log
