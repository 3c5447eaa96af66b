"""Addresses of the pages. Names stand in the query, where a browser changes nothing of them."""

from __future__ import annotations

from urllib.parse import urlencode

PREFIX = "/ui"


class Addresses:
    """Addresses of things in one partition."""

    def __init__(self, where: dict[str, str]) -> None:
        """`where`: resource manager and partition, if they have to be named."""
        self._where = where

    def to(self, page: str, /, **values: str) -> str:
        """The address of a page; values that are empty are left out."""
        query = urlencode({**{name: one for name, one in values.items() if one}, **self._where}, errors="replace")
        return f"{PREFIX}/{page}?{query}" if query else f"{PREFIX}/{page}"

    def application(self, application_id: str) -> str:
        return self.to("application", id=application_id)

    def queue(self, path: str) -> str:
        return self.to("queue", path=path)

    def node(self, node_id: str) -> str:
        return self.to("node", id=node_id)

    def ask(self, application_id: str, key: str) -> str:
        return self.to("ask", application=application_id, ask=key)
