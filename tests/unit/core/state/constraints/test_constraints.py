"""Asks with placement constraints: where they are placed, what they wait for, and what wakes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedulerd.core.language.commands import NodeAction
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.state.constraints import constraints
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from tests.unit.core.builders import Conversation, a_conversation, a_node, an_app, an_ask, an_existing, placed
from tests.unit.core.constraint_builders import DB, HOST, IS_DB, IS_WEB, WEB, lacks, none_of, on, one_of, together


def a_cluster(*zones: str, memory: int = 100) -> Conversation:
    """A node for each: n1 in the first zone and so on; '' is none."""
    return a_conversation(
        *(
            a_node(f"n{number}", {"memory": memory}, attributes={"zone": zone} if zone else {})
            for number, zone in enumerate(zones, 1)
        )
    )


def where(facts: list[Fact]) -> dict[str, str]:
    """Node by key."""
    return {key: node_id for _, key, node_id in placed(facts)}


def why(talk: Conversation, key: str) -> str:
    return next(one.waiting_for for one in talk.app().asks if one.allocation_key == key)


# nodes ----------------------------------------------------------------------------------------------------------------


def test_an_ask_goes_to_a_node_with_the_attributes_it_demands() -> None:
    talk = a_cluster("a", "b", "")
    talk.asks(an_ask("b", constraint=on(one_of("zone", "b"))), an_ask("none", constraint=on(lacks("zone"))))
    assert where(talk.schedule()) == {"b": "n2", "none": "n3"}


def test_why_an_ask_waits_is_counted_by_what_is_wrong_with_nodes() -> None:
    talk = a_cluster("a", "a", "b", "")
    talk.asks(an_ask("fill", 100, constraint=on(one_of("zone", "b"))))
    talk.asks(an_ask("k", constraint=on(one_of("zone", "b"))))
    talk.schedule()
    assert (
        why(talk, "k")
        == "no node has room: 4 nodes are considered, 3 are ruled out: zone is not b, 1 has too little memory"
    )


def test_attributes_that_change_let_an_ask_go_there_or_keep_it_away() -> None:
    talk = a_cluster("a")
    talk.asks(an_ask("k", count=2, constraint=on(one_of("zone", "b"))))
    assert where(talk.schedule()) == {}
    talk.nodes(a_node("n1", action=NodeAction.UPDATE, attributes={"zone": "b"}))
    assert placed(talk.cycle(1)) == [("app", "k", "n1")]
    talk.nodes(a_node("n1", action=NodeAction.UPDATE, attributes={"zone": "c"}))
    assert placed(talk.schedule()) == []


def test_attributes_that_are_reported_replace_all_there_were() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}, attributes={"zone": "a", "rack": "r"}))
    talk.nodes(a_node("n1", action=NodeAction.UPDATE, attributes={"zone": "b"}))
    assert talk.node().attributes == {"zone": "b"}
    talk.asks(an_ask("old", constraint=on(one_of("rack", "r"))), an_ask("new", constraint=on(one_of("zone", "b"))))
    assert where(talk.schedule()) == {"new": "n1"}


def test_a_new_node_that_will_not_do_requeues_nothing() -> None:
    talk = a_cluster("a")
    talk.asks(an_ask("k", constraint=on(one_of("zone", "b"))))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 100}, attributes={"zone": "c"}))
    assert not talk.scheduler.wants_cycle()
    talk.nodes(a_node("n3", {"memory": 100}, attributes={"zone": "b"}))
    assert where(talk.schedule()) == {"k": "n3"}


def test_a_required_node_has_to_meet_the_constraint_too() -> None:
    talk = a_cluster("a", "b")
    talk.asks(an_ask("k", tags={REQUIRED_NODE_TAG: "n1"}, constraint=on(none_of("zone", "a"))))
    assert where(talk.schedule()) == {}
    assert why(talk, "k") == "the node that it requires, n1, is ruled out: zone is a"
    talk.nodes(a_node("n1", action=NodeAction.UPDATE, attributes={"zone": "b"}))
    assert where(talk.schedule()) == {"k": "n1"}


def test_a_selector_in_a_tag_and_the_constraint_are_both_to_be_met() -> None:
    talk = a_conversation(
        a_node("n1", {"memory": 100}, attributes={"zone": "a", "spot": "1"}),
        a_node("n2", {"memory": 100}, attributes={"zone": "b"}),
        a_node("n3", {"memory": 100}, attributes={"zone": "a"}),
    )
    talk.asks(an_ask("k", tags={NODE_SELECTOR_TAG: "!spot"}, constraint=on(one_of("zone", "a"))))
    assert where(talk.schedule()) == {"k": "n3"}


def test_a_node_without_hostname_has_its_id_for_one() -> None:
    talk = a_conversation(
        a_node("n1", {"memory": 100}), a_node("n2", {"memory": 100}, attributes={HOST: "big", "hostname": "big"})
    )
    talk.asks(an_ask("k", tags={NODE_SELECTOR_TAG: f"{HOST}=n1,hostname in (n1,n2)"}))
    talk.asks(an_ask("nowhere", tags={NODE_SELECTOR_TAG: f"{HOST}=n2"}))
    assert where(talk.schedule()) == {"k": "n1"}


def test_an_update_of_an_ask_may_change_its_constraint() -> None:
    talk = a_cluster("a")
    talk.asks(an_ask("k", constraint=on(one_of("zone", "b"))))
    talk.schedule()
    talk.asks(an_ask("k"))
    assert where(talk.schedule()) == {"k": "n1"}


# how many together ----------------------------------------------------------------------------------------------------


def test_no_more_than_the_most_are_together_and_a_release_makes_room_for_one() -> None:
    talk = a_cluster("a", "a", "b")
    talk.asks(an_ask("w", count=4, tags=WEB, constraint=together("zone", IS_WEB, most=1)))
    assert [node for _, _, node in placed(talk.schedule())] == ["n1", "n3"]
    assert why(talk, "w").endswith(
        "3 nodes are considered, 3 are ruled out: too many allocations with app=web in its zone: 1 with it are allowed"
    )
    (first, *_) = talk.node("n1").allocations
    talk.release(uuid=first.uuid)
    assert len(placed(talk.schedule())) == 1
    assert not talk.scheduler.wants_cycle()


def test_one_to_a_host_where_nodes_have_no_hostname() -> None:
    talk = a_cluster("", "", "")
    talk.asks(an_ask("w", count=4, tags=WEB, constraint=together("hostname", IS_WEB, most=1)))
    assert sorted(node for _, _, node in placed(talk.schedule())) == ["n1", "n2", "n3"]


def test_an_ask_waits_for_others_and_goes_where_they_are() -> None:
    talk = a_cluster("a", "b", "b")
    talk.asks(an_ask("near", constraint=together("zone", IS_DB, least=2)))
    assert placed(talk.schedule()) == []
    assert "3 are ruled out: too few allocations with app=db in its zone: 2 with it are wanted" in why(talk, "near")
    talk.asks(an_ask("db", count=2, tags=DB, constraint=on(one_of("zone", "b"))))
    talk.cycle(2)
    assert talk.scheduler.wants_cycle(), "the second of them lets it go there"
    assert where(talk.schedule())["near"] in ("n2", "n3")


def test_the_first_of_two_that_want_to_be_together_finds_no_other() -> None:
    """The count after placing lies in min..max, and it would be 1 (SI 2021-02)."""
    talk = a_cluster("a")
    talk.asks(an_ask("w", count=2, tags=WEB, constraint=together("zone", IS_WEB, least=2)))
    assert placed(talk.schedule()) == []
    talk.asks(an_ask("seed", tags=WEB))
    assert [key for _, key, _ in placed(talk.schedule())] == ["seed", "w", "w"]


def test_allocations_count_that_meet_all_expressions_and_only_for_asks_with_the_constraint() -> None:
    gold = {**WEB, "tier": "gold"}
    constraint = together("zone", IS_WEB, one_of("tier", "gold"), most=1)
    talk = a_cluster("a")
    talk.asks(an_ask("web", count=2, tags=WEB), an_ask("gold", tags=gold))
    talk.schedule()
    talk.asks(an_ask("k", constraint=constraint))
    assert where(talk.schedule()) == {"k": "n1"}
    talk.asks(an_ask("second", tags=gold))
    assert where(talk.schedule()) == {"second": "n1"}, "it has no constraint of its own"
    talk.asks(an_ask("late", constraint=constraint))
    assert where(talk.schedule()) == {}


def test_what_is_demanded_of_nodes_and_of_company_has_to_hold_both() -> None:
    talk = a_cluster("a", "b", "b")
    both = replace(together("zone", IS_WEB, most=1), node=(one_of("zone", "b"),))
    talk.asks(an_ask("w", count=3, tags=WEB, constraint=both))
    assert placed(talk.schedule()) == [("app", "w", "n2")]


def test_a_node_without_the_scope_is_in_no_group() -> None:
    talk = a_cluster("", "a")
    talk.asks(an_ask("w", count=2, tags=WEB, constraint=together("zone", IS_WEB, most=1)))
    assert where(talk.schedule()) == {"w": "n2"}
    assert "1 is ruled out: no zone, which makes nodes a group" in why(talk, "w")


def test_allocations_of_all_applications_count_and_those_that_are_taken_over() -> None:
    talk = a_cluster("a")
    talk.apps(an_app("other"))
    talk.asks(an_ask("w", tags=WEB, app="other"))
    assert len(placed(talk.schedule())) == 1
    talk.asks(an_ask("k", count=2, tags=WEB, constraint=together("zone", IS_WEB, most=2)))
    assert placed(talk.schedule()) == [("app", "k", "n1")]
    existing = [an_existing(f"e{number}", f"e{number}", tags=WEB, app="other") for number in range(3)]
    talk.nodes(a_node("n2", {"memory": 100}, *existing, attributes={"zone": "b"}))
    assert len(talk.node("n2").allocations) == 3, "what runs is never refused"
    assert placed(talk.schedule()) == []
    talk.release(application_id="other", uuid="e0")
    assert placed(talk.schedule()) == []
    talk.release(application_id="other", uuid="e1")
    assert placed(talk.schedule()) == [("app", "k", "n2")]


def test_a_node_that_moves_takes_its_allocations_to_the_other_group() -> None:
    talk = a_cluster("a", "a")
    talk.asks(an_ask("w", count=2, tags=WEB, constraint=together("zone", IS_WEB, most=1)))
    assert placed(talk.schedule()) == [("app", "w", "n1")]
    talk.nodes(a_node("n1", action=NodeAction.UPDATE, attributes={"zone": "b"}))
    assert placed(talk.schedule()) == [("app", "w", "n2")]


def test_what_is_asked_to_go_counts_until_it_is_gone() -> None:
    talk = a_cluster("a")
    talk.asks(an_ask("w", tags=WEB, execution_timeout_ms=1_000))
    talk.schedule()
    talk.asks(an_ask("k", tags=WEB, constraint=together("zone", IS_WEB, most=1)))
    talk.sleep(2_000_000_000)
    assert placed(talk.schedule()) == []
    (only_one,) = talk.node("n1").allocations
    assert only_one.releasing
    talk.release(uuid=only_one.uuid)
    assert where(talk.schedule()) == {"k": "n1"}


def test_what_others_ask_for_under_other_constraints_counts_too() -> None:
    talk = a_cluster("b", "a")
    talk.asks(an_ask("web", 10, tags=WEB, constraint=on(one_of("zone", "a"))))
    talk.asks(an_ask("near", 20, tags=DB, constraint=together("zone", IS_WEB, least=1)))
    talk.asks(an_ask("far", 30, constraint=together("zone", none_of("app", "db"), most=1)))
    assert where(talk.schedule()) == {"web": "n2", "near": "n2", "far": "n1"}


# wishes ---------------------------------------------------------------------------------------------------------------


def test_a_wish_ranks_nodes_and_refuses_none() -> None:
    talk = a_cluster("a", "b", memory=20)
    talk.asks(an_ask("db", tags=DB))
    talk.schedule()
    talk.asks(an_ask("k", count=3, constraint=together("zone", IS_DB, least=1, required=False)))
    assert [node for _, _, node in placed(talk.schedule())] == ["n1", "n2", "n2"]


def test_a_wish_is_looked_at_again_when_there_is_room_where_it_would_be_fulfilled() -> None:
    talk = a_cluster("a", "b", memory=100)
    talk.asks(an_ask("db", 20, tags=DB))
    talk.asks(an_ask("fill", 80, tags={REQUIRED_NODE_TAG: "n1"}))
    talk.schedule()
    wish = together("zone", IS_DB, least=1, required=False)
    talk.asks(an_ask("k1", constraint=wish))
    assert where(talk.schedule()) == {"k1": "n2"}
    talk.release(allocation_key="fill")
    talk.asks(an_ask("k2", constraint=wish))
    assert where(talk.schedule()) == {"k2": "n1"}


# what is remembered ---------------------------------------------------------------------------------------------------


def test_constraints_that_no_ask_has_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraints, "RULES_MIN", 16)
    monkeypatch.setattr(constraints, "FEW_NODES", 0)
    monkeypatch.setattr(constraints, "WALKED_PART", 10_000)
    talk = a_cluster("a")
    known = talk.model().constraints
    talk.asks(an_ask("stays", constraint=together("zone", IS_WEB, least=1)))
    for number in range(3 * constraints.RULES_MIN):
        talk.asks(an_ask("k", tags={NODE_SELECTOR_TAG: f"zone!=z{number}"}))
        talk.schedule()
        talk.release(allocation_key="k")
    assert len(known.rules) <= constraints.RULES_MIN
    assert len(known.pools.by_key) <= constraints.RULES_MIN
    talk.asks(an_ask("web", tags=WEB))
    assert set(where(talk.schedule())) == {"web", "stays"}


def test_without_constraints_nothing_is_stored() -> None:
    talk = a_cluster("a", "b")
    talk.asks(an_ask("k", count=3, tags=WEB))
    talk.schedule()
    talk.release(allocation_key="k")
    known = talk.model().constraints
    pools = known.pools
    stored = (known.rules, pools.by_key, known.scopes, known.affinities, pools.of_node, known.tagged.watched_keys())
    assert not any(stored)
