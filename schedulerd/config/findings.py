"""The form in which checks say what they found: where, and what would be right.

A finding becomes a `Problem` once the document adds the line and the value as written.
"""

from __future__ import annotations

from typing import TypeAlias

from schedulerd.config.problems import Path

Finding: TypeAlias = tuple[Path, str]
