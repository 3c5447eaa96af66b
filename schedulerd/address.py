"""`HOST:PORT` as people write it: where the daemon listens, and where a client finds it."""

from __future__ import annotations

import re

import click


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 host is in brackets, which are removed. Raises ValueError."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:\[\]]+)):([0-9]{1,5})", address)
    if match is None or int(match[3]) > 65535:
        raise ValueError("must be HOST:PORT, like 0.0.0.0:3333 or [::1]:3333, with a port up to 65535 (0 for any free)")
    return match[1] or match[2], int(match[3])


class Target(click.ParamType[str]):
    """A command line option that says where a daemon is to be found."""

    name = "HOST:PORT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            port = split_address(value)[1]
        except ValueError:
            port = 0
        if port == 0:
            self.fail(f"{value!r} must be HOST:PORT, like localhost:3333 or [::1]:3333, with a port from 1 to 65535")
        return value
