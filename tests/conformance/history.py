"""What the core did in a played scenario, step by step: where the cause of an answer is looked for."""

from __future__ import annotations

from typing import NamedTuple

from schedulerd.core.language.facts.fact import Fact
from tests.conformance.compare import Json


class Turn(NamedTuple):
    """One step of a scenario, and all that the core said to it."""

    step: Json
    facts: list[Fact]


History = list[list[Turn]]
"""The turns of a played scenario before each check, since the check before; last those after the last check."""
