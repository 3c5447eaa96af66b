"""What an answer to a placeholder costs, counted and not timed: it must not grow with its gang."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.reasons.waiting import Rule, State, Waiting
from tests.kubernetes.builders import app, node
from tests.kubernetes.cluster.gang_play import member, started
from tests.kubernetes.cluster.play import of
from tests.kubernetes.reasons.reader import FAILED
from tests.unit.core.test_work import calls_during

BLOCKED = Waiting(State.QUOTA_BLOCKED, True, Rule.QUOTA, "root.q", "vcore", 4000, 0, 2000, 4000)


@pytest.mark.parametrize("waiting", [None, BLOCKED, FAILED])
def test_the_allocation_of_a_virtual_placeholder(waiting: Waiting | None) -> None:
    def calls(members: int) -> int:
        play = started()
        play.put(node("n", cpu="1k", pods="1k"))
        pods = [member(f"w{number}", members=members, placeholders="virtual") for number in range(members)]
        effects = play.put(*pods)
        keys = [ask.key for ask in of(effects, e.Ask) if ask.is_placeholder]
        play.tell(v.ApplicationAccepted(app("a")), v.ApplicationUpdated(app("a"), "Accepted", ""))
        if waiting is not None:
            play.tell(*(v.PendingReasonTold(app("a"), key, waiting) for key in keys[-1:]))
        for key in keys[:-1:2]:
            play.tell(v.Allocated(app("a"), key, f"u-{key}", "n"))
        return calls_during(lambda: play.cluster.step(play.now_ns, (v.Allocated(app("a"), keys[1], "u", "n"),)))

    once = calls(8)
    assert once > 10
    assert calls(200) == once
