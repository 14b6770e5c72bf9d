"""A self-signed certificate for loopback, made by the openssl command."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

__all__ = ["Certificate", "make_certificate"]


class Certificate(NamedTuple):
    """Paths of a certificate and its key."""

    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """A context for a server that presents this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def make_certificate(directory: Path, names: str = "DNS:localhost,IP:127.0.0.1") -> Certificate:
    """Make a certificate for 127.0.0.1 and localhost, or other *names*, valid for two days; it is its own authority."""
    made = Certificate(directory / "certificate.pem", directory / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", f"subjectAltName={names}"]
    command += ["-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return made
