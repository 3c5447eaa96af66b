"""All mutants."""

from __future__ import annotations

from tests.mutants import of_applications_and_gangs, of_preemption, of_time_and_amounts, of_waiting

MUTANTS = (
    *of_time_and_amounts.MUTANTS,
    *of_waiting.MUTANTS,
    *of_applications_and_gangs.MUTANTS,
    *of_preemption.MUTANTS,
)
