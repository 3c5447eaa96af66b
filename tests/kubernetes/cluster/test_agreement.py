"""Random histories in which kubectl and `explain` have to say the same whenever nothing has changed for 15 s."""

from __future__ import annotations

from tests.kubernetes.cluster import agreement
from tests.kubernetes.cluster.core_world import CoreGangWorld
from tests.loops import each_seed


@each_seed(range(3), nightly=range(3, 8))
def test_conditions_say_what_explain_says(seed: int) -> None:
    judged, found = agreement.play(agreement.WaitingWorld(seed))
    assert found == []
    assert judged > 10


@each_seed(range(6))
def test_conditions_of_gangs_say_what_explain_says(seed: int) -> None:
    assert agreement.play(CoreGangWorld(seed))[1] == []
