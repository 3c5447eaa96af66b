"""Addresses of the form `HOST:PORT`: where the daemon listens, and where a client finds it."""

from __future__ import annotations

import re

import click


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`. An IPv6 host is in brackets, which are removed. Raises ValueError."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:\[\]]+)):([0-9]{1,5})", address)
    if match is None or int(match[3]) > 65535:
        raise ValueError("must be HOST:PORT, like 0.0.0.0:3333 or [::1]:3333, with a port up to 65535 (0 for any free)")
    return match[1] or match[2], int(match[3])


UNIX_PATH_BYTES_MAX = 107
"""What Linux takes as the address of a socket."""


def unix_path(address: str) -> str | None:
    """The path of `unix:/PATH`; None if the address is of another kind. Raises ValueError."""
    scheme, _, path = address.partition(":")
    if scheme != "unix":
        return None
    if not path.startswith("/") or path.endswith("/") or len(path.encode()) > UNIX_PATH_BYTES_MAX or "\0" in path:
        raise ValueError(
            f"must be unix:/PATH, like unix:/run/schedulerd/grpc.sock, with an absolute path of up to "
            f"{UNIX_PATH_BYTES_MAX} bytes"
        )
    return path


class Target(click.ParamType[str]):
    """A command line option with the address of a daemon."""

    name = "HOST:PORT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            if unix_path(value) is not None:
                return value
        except ValueError as error:
            self.fail(f"{value!r} {error}")
        try:
            port = split_address(value)[1]
        except ValueError:
            port = 0
        if port == 0:
            self.fail(f"{value!r} must be HOST:PORT, like localhost:3333 or [::1]:3333, with a port from 1 to 65535")
        return value
