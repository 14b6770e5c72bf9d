"""Addresses behind the shipped nginx: what a client invents does not make it another."""

from __future__ import annotations

from pathlib import Path

from app.demo import DemoUpstream
from tests.servers import GunicornGateway, free_port, request
from tests.test_deploy import Nginx, port_of, shipped_site


def test_behind_nginx_a_forged_address_is_not_believed(tmp_path: Path, upstream: DemoUpstream) -> None:
    """nginx adds the address it sees, and one proxy is believed: the client's own entries count for nothing."""
    env = {
        "OPENROUTER_BASE_URL": upstream.base_url,
        "SLUICE_RATE_LIMIT": "3/hour",
        "SLUICE_TRUSTED_PROXIES": "1",
    }
    with GunicornGateway(env) as gateway:
        port = free_port()
        nginx = Nginx(tmp_path, shipped_site(port_of(gateway.url), port), port)
        try:
            nginx.start()
            found = []
            for number in range(5):
                headers = {"X-Forwarded-For": f"192.0.2.{number}, 198.51.100.{number}"}
                with request("GET", f"{nginx.url}/v1/models", headers=headers) as answer:
                    found.append(answer.status)
        finally:
            nginx.stop()
    assert [200, 200, 200, 429, 429] == found
