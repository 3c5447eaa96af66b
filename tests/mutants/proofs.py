"""The finders that several mutants have in common."""

from __future__ import annotations

from hypothesis import strategies as st

from schedulerd.core.language.specs import NodeOrder
from tests.mutants.finders import Property, Simulated
from tests.property import constrained, full_cluster
from tests.property.full_scenes import scenes
from tests.property.story import plans, several_trees
from tests.property.test_constraints import check_constraints
from tests.property.test_next_ask import check_next_ask
from tests.property.test_preemption import check_decisions
from tests.property.test_reloads import check_reloads, files, reload_plans
from tests.property.test_usage import check_quotas, check_usage
from tests.property.test_victims import check_best, choices
from tests.sim.constrained_world import ConstrainedWorld
from tests.sim.contested_world import ContestedWorld
from tests.sim.gang_world import GangWorld
from tests.sim.limited_gang_world import LimitedGangWorld

ANY_WORLD = Simulated()
GANGS = Simulated((GangWorld,))
LIMITED_GANGS = Simulated((LimitedGangWorld,))
CONTESTED = Simulated((ContestedWorld,))
CONSTRAINED = Simulated((ConstrainedWorld,))

ORDER = Property(check_next_ask, (several_trees, plans))
QUOTAS = Property(check_quotas, (several_trees, plans))
USAGE = Property(check_usage, (several_trees, plans))
RELOADS = Property(check_reloads, (files(), reload_plans))
PREEMPTION = Property(check_decisions, (scenes, full_cluster.plans))
VICTIM_SETS = Property(check_best, (choices,))
NODE_ORDERS = st.sampled_from(list(NodeOrder))
CONSTRAINTS = Property(check_constraints, (constrained.plans, NODE_ORDERS))


def contested(says: str) -> Simulated:
    """Where asks compete for room, without faults, and this has to be said."""
    return Simulated((ContestedWorld,), says, steps=500, seeds=24, is_faulty=False)
