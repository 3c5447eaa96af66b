"""The table of a gang's stages."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster.gangs.lifecycle import GANG, GangProgress, GangStage, GangTrigger, IllegalMove
from schedulerd.kubernetes.cluster.gangs.model import Gang, GangSource
from schedulerd.kubernetes.metadata.gangs import GangStyle, PlaceholderKind


def gang() -> Gang:
    return Gang(GangSource.ANNOTATIONS, PlaceholderKind.PODS, GangStyle.SOFT)


def test_every_stage_has_a_row_and_can_be_reached() -> None:
    assert set(GANG) == set(GangStage)
    reached = {gang().stage}
    while more := {to for stage in reached for to in GANG[stage].values()} - reached:
        reached |= more
    assert reached == set(GangStage)
    assert {trigger for row in GANG.values() for trigger in row} == set(GangTrigger)


def test_a_move_that_is_not_in_the_table_raises() -> None:
    one = gang()
    with pytest.raises(IllegalMove, match="a gang that is forming"):
        one.enter(GangTrigger.END)
    assert one.stage is GangStage.FORMING


def test_progress_is_lost_only_when_the_gang_starts_over() -> None:
    one = gang()
    one.reach(GangProgress.WAS_COMPLETE)
    one.reach(GangProgress.RUNS)
    assert one.was_complete
    one.enter(GangTrigger.START_OVER)
    assert not one.has_run
