"""Certificates that the tests of the daemon use as well (`tests/contract/tls/make.sh` makes them)."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "contract" / "tls"
AUTHORITY = (FOLDER / "ca.pem").read_bytes()
CERTIFICATE = (FOLDER / "client.pem").read_bytes()
KEY = (FOLDER / "client.key").read_bytes()
SERVER_CERTIFICATE = FOLDER / "server.pem"
SERVER_KEY = FOLDER / "server.key"
