"""Whether an ask that nobody made would be placed: by its queue, then by quotas and limits, then by nodes."""

from __future__ import annotations

from dataclasses import replace

from schedulerd.core.explain.rules.fits import Supposed, fits
from schedulerd.core.explain.values import FitsFinding
from schedulerd.core.language.queue_commands import SetQueueStopped
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import Acl, LimitSpec
from tests.unit.core.builders import Conversation, a_conversation, a_node, a_queue_spec, a_root, an_ask, placed
from tests.unit.core.explain.explained import finish, rm_of


def found(talk: Conversation, memory: int, user: str = "somebody") -> FitsFinding:
    leaf = talk.model().root.find("root.a")
    assert leaf is not None
    ask = Supposed(Resources(memory=memory), user)
    return finish(fits(rm_of(talk), talk.model(), leaf, ask, talk.now_ns))


def test_it_says_the_node_that_the_ask_would_get() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}), a_node("n2", {"memory": 30}))
    finding = found(talk, 20)
    assert (finding.fits, finding.node_id) == (True, "n2")
    talk.asks(an_ask("k", 20))
    assert placed(talk.schedule()) == [("app", "k", "n2")]
    assert (found(talk, 20).fits, found(talk, 20).node_id) == (False, "")


def test_a_quota_or_the_limit_of_the_user_keeps_it_from_a_node_with_room() -> None:
    limited = replace(
        a_queue_spec("a"), max=Limits(memory=30), limits=(LimitSpec(users=("ann",), max=Limits(memory=5)),)
    )
    talk = a_conversation(a_node("n1", {"memory": 100}), root=a_root(limited))
    assert found(talk, 20).fits
    for finding in (found(talk, 40), found(talk, 20, "ann")):
        assert (finding.fits, finding.node_id, finding.refusal) == (False, "", "")
        assert finding.rule is not None
        assert finding.nodes.best[0].cause == "room"


def test_a_queue_that_takes_no_application_or_not_of_the_user_says_so() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.step(SetQueueStopped(talk.rm_id, "root.a", stopped=True))
    finding = found(talk, 20)
    assert (finding.fits, finding.node_id) == (False, "")
    assert finding.refusal == "root.a is stopped by an operator: it takes no new applications"
    talk.disconnect()
    assert found(talk, 20).refusal.endswith("nothing is placed for it")
    guarded = replace(a_root(a_queue_spec("a", submit_acl=Acl(users=frozenset({"ann"})))), submit_acl=Acl())
    talk = a_conversation(a_node("n1", {"memory": 100}), root=guarded)
    assert found(talk, 20, "ann").fits
    assert "'bob' with groups [] may not submit to root.a" in found(talk, 20, "bob").refusal
