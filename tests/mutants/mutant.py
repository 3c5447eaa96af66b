"""What a mutant is: a rule, a change of the core that breaks it, and what has to find that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.mutants.changes import Change
from tests.mutants.finders import Finder
from tests.mutants.rules import Rule

TESTS = Path(__file__).parents[1]
OF_FINDERS = tuple(str(TESTS / name) for name in ("mutants", "loops.py"))
"""What is raised there says nothing about the core."""


class OwnFault(Exception):
    """The mutant itself fell over, so what was found is a mistake in the mutant, and not what it does to the core."""


@dataclass(frozen=True)
class Mutant:
    name: str
    """What it does wrong, in words."""
    rule: Rule
    """What does not hold any longer."""
    change: Change
    finders: tuple[Finder, ...]
    """Each of them has to find it."""

    def found(self) -> list[str]:
        """What each of the finders finds, '' for nothing. Raises OwnFault or DoesNotFit if the mutant is no good."""
        texts = []
        for finder in self.finders:
            with self.change.put_in() as calls:
                found = finder.find()
            if found is not None and found.innermost_file.startswith(OF_FINDERS):
                raise OwnFault(f"{self.name}: {found.text}")
            if found is None and not calls.count:
                print(f"{self.name}: {finder} never came to {self.change.place}")
            texts.append(found.text if found is not None else "")
        return texts
