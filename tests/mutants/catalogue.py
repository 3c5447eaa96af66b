"""All mutants."""

from __future__ import annotations

from tests.mutants import (
    of_amounts,
    of_applications_and_gangs,
    of_constraints,
    of_declared_gangs,
    of_plans_and_topology,
    of_preemption,
    of_room,
    of_shim_api,
    of_shim_applications,
    of_shim_gangs,
    of_shim_held_rooms,
    of_shim_pods,
    of_shim_retries,
    of_shim_successors,
    of_time,
    of_waiting,
)

MUTANTS = (
    *of_time.MUTANTS,
    *of_amounts.MUTANTS,
    *of_room.MUTANTS,
    *of_waiting.MUTANTS,
    *of_constraints.MUTANTS,
    *of_applications_and_gangs.MUTANTS,
    *of_declared_gangs.MUTANTS,
    *of_plans_and_topology.MUTANTS,
    *of_preemption.MUTANTS,
    *of_shim_pods.MUTANTS,
    *of_shim_retries.MUTANTS,
    *of_shim_gangs.MUTANTS,
    *of_shim_held_rooms.MUTANTS,
    *of_shim_successors.MUTANTS,
    *of_shim_api.MUTANTS,
    *of_shim_applications.MUTANTS,
)
