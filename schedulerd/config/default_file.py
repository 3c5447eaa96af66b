"""Finds the queue file that schedulerd ships.

The repository keeps one copy, config/queues.yaml at its top, where people look for it. A wheel carries that copy inside
the package; an editable install or a checkout has it only at the top.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def default_queue_file_text() -> str:
    """The shipped queue file as YAML text. Raises FileNotFoundError, naming it, when the installation lacks it."""
    packaged = files("schedulerd.config").joinpath("default_queues.yaml")
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / "config" / "queues.yaml").read_text(encoding="utf-8")
