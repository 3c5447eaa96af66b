"""A directory that changes the way Kubernetes changes a mounted ConfigMap."""

from __future__ import annotations

from pathlib import Path


class ConfigMap:
    """`queues.yaml` is a link to `..data/queues.yaml`, and `..data` one to a directory that `swap` replaces at once."""

    def __init__(self, directory: Path, text: str) -> None:
        self._directory = directory
        self._version = 0
        self.path = directory / "queues.yaml"
        self.swap(text)
        self.path.symlink_to(Path("..data") / "queues.yaml")

    def swap(self, text: str) -> None:
        self._version += 1
        version = self._directory / f"..version_{self._version}"
        version.mkdir()
        (version / "queues.yaml").write_text(text)
        link = self._directory / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self._directory / "..data")
