"""JSON Patch (RFC 6902) of the fewest operations that set some values in a document."""

from __future__ import annotations

from typing import Any

Path = tuple[str | int, ...]


class JsonPatch:
    """Collects the operations that make `document` have what was `set`. The document is changed along."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self.operations: list[dict[str, Any]] = []

    def set(self, path: Path, value: str) -> None:
        """A value that is there already costs nothing; objects that are missing above it are added with it.

        Everything above a list index has to exist. Raises LookupError or TypeError if it does not.
        """
        parent: Any = self._document
        for depth, step in enumerate(path[:-1]):
            child = parent.get(step) if isinstance(parent, dict) else parent[step]
            if child is None:
                self._add(parent, path[: depth + 1], _nested(path[depth + 1 :], value))
                return
            parent = child
        if path[-1] not in parent or parent[path[-1]] is None:
            self._add(parent, path, value)
        elif parent[path[-1]] != value:
            parent[path[-1]] = value
            self.operations.append({"op": "replace", "path": pointer(path), "value": value})

    def _add(self, parent: Any, path: Path, value: Any) -> None:
        parent[path[-1]] = value
        self.operations.append({"op": "add", "path": pointer(path), "value": value})


def pointer(path: Path) -> str:
    """As a JSON Pointer (RFC 6901), in which `~` and `/` are escaped."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def _nested(path: Path, value: Any) -> Any:
    for step in reversed(path):
        value = {step: value}
    return value
