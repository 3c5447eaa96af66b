"""One line of the core, changed for the process that asks for it before the core is imported.

Nothing of the core may be imported here: what is imported already stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import NamedTuple

PACKAGE = "schedulerd.core"


class Seed(NamedTuple):
    """A simulation with faults, in one of all worlds."""

    seed: int
    steps: int


class Proof(NamedTuple):
    """A test that finds what no simulation meets soon: of a property, with random examples that are the same each time,
    or of a rule."""

    module: str
    """Below `tests`."""
    test: str


RIGHTS = Proof("property.test_preemption", "test_whoever_has_a_right_gets_in_and_the_least_harm_is_done_for_it")
ORDER = Proof("property.test_next_ask", "test_the_next_ask_is_what_sorting_everything_anew_says")


class Mutant(NamedTuple):
    """A line that is broken on purpose."""

    name: str
    """What it does wrong, in words."""
    module: str
    """Below the core."""
    text: str
    """A part of a line that is there once; with as much of the lines around it as that takes."""
    replacement: str
    finder: Seed | Proof
    """What finds it."""

    @property
    def module_name(self) -> str:
        return f"{PACKAGE}.{self.module}"

    def broken(self, source: str) -> str:
        """The source with the mutant's line. Raises ValueError if its text is not there exactly once."""
        if source.count(self.text) != 1:
            raise ValueError(
                f"{self.name}: {self.text!r} is there {source.count(self.text)} times in {self.module_name}"
            )
        return source.replace(self.text, self.replacement)


def put_in(mutant: Mutant) -> None:
    """From now on the module is imported as the mutant has it. Raises RuntimeError if the core is imported already."""
    if PACKAGE in sys.modules:
        raise RuntimeError(f"{PACKAGE} is imported already; a mutant needs a process of its own")
    sys.meta_path.insert(0, _Finder(mutant))


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._mutant.module_name:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._mutant)
        return spec


class _Loader(SourceFileLoader):
    """Compiles anew each time, so that no mutant is ever left in a cache."""

    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_source(fullname)
        assert source is not None
        return self.source_to_code(self._mutant.broken(source).encode(), self.path)
