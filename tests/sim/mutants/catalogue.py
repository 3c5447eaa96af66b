"""All mutants, each with what finds it."""

from __future__ import annotations

from tests.sim.mutants import of_conduct, of_counts

MUTANTS = (*of_counts.MUTANTS, *of_conduct.MUTANTS)
