"""Outstanding requests as the message that autoscalers know: one for each kind of ask, with how many in a tag."""

from __future__ import annotations

from schedulerd._generated.si.v2021_02 import si_pb2
from schedulerd.core.autoscaling.summary import OutstandingView, outstanding_requests
from schedulerd.core.language.commands import AllocationAffinity, Expression, Operator, PlacementConstraint
from schedulerd.wire import autoscaling
from tests.unit.core.builders import a_conversation, a_node, a_queue_spec, a_root, an_app, an_ask


def request(partition: str = "default", **fields: object) -> si_pb2.OutstandingResourceRequest:
    known = {"resources": {"vcore": 5, "memory": 7}, "count": 3, "queue": "root.a"}
    one = OutstandingView(**{**known, "node_selector": "", "affinity_scope": "", **fields})  # type: ignore[arg-type]
    (found,) = autoscaling.metrics([(partition, one)]).outstandingRequests
    return found


def test_size_and_tags() -> None:
    found = request()
    assert {name: amount.value for name, amount in found.resource.resources.items()} == {"memory": 7, "vcore": 5}
    assert dict(found.tags) == {
        "schedulerd.io/count": "3",
        "schedulerd.io/partition": "default",
        "schedulerd.io/queue": "root.a",
    }


def test_what_is_demanded_of_nodes_is_a_tag_in_the_syntax_of_asks() -> None:
    found = request(node_selector="zone in (a,b),gpu", affinity_scope="rack")
    assert found.tags["schedulerd.io/node-selector"] == "zone in (a,b),gpu"
    assert found.tags["schedulerd.io/affinity-scope"] == "rack"


def test_the_id_is_that_of_the_kind_of_ask() -> None:
    known = request().requestID
    assert request(resources={"memory": 7, "vcore": 5}, count=9, queue="root.b").requestID == known
    assert known == "93eb66b7a256716f853899dff02e43b9", "the same in every run"
    others = [
        request("gpu"),
        request(resources={"memory": 7}),
        request(node_selector="zone=a"),
        request(affinity_scope="zone=a"),
    ]
    assert len({known, *(one.requestID for one in others)}) == 5


def test_equal_asks_of_several_queues_are_one_request() -> None:
    parent = a_queue_spec("p", a_queue_spec("one"), a_queue_spec("two"))
    talk = a_conversation(a_node("n1", {"memory": 1}), root=a_root(parent, a_queue_spec("a")))
    talk.apps(an_app("first", "root.p.one"), an_app("second", "root.p.two"), an_app("third", "root.p.two"))
    asks = [an_ask("k", 10, count=2, app=app) for app in ("first", "second", "third")]
    talk.asks(*asks, an_ask("other", 20, app="third"), an_ask("tags", 30, app="third"))
    talk.asks(an_ask("tags", 30))
    talk.schedule()
    found = {one.resources["memory"]: (one.count, one.queue) for one in outstanding_requests(talk.model())}
    assert found == {10: (6, "root.p"), 20: (1, "root.p.two"), 30: (2, "root")}


def test_what_only_some_nodes_will_do_for_is_a_request_of_its_own() -> None:
    talk = a_conversation(a_node("n1", {"memory": 15}, attributes={"zone": "a"}), a_node("n2", {"memory": 5}))
    tags = {"schedulerd.io/node-selector": "zone=a"}
    talk.asks(an_ask("fill", 10), an_ask("plain", 10), an_ask("picky", 10, tags=tags))
    talk.asks(an_ask("nowhere", 10, tags={"schedulerd.io/node-selector": "zone=moon"}))
    talk.schedule()
    found = sorted((one.node_selector, one.count) for one in outstanding_requests(talk.model()))
    assert found == [("", 1), ("zone=a", 1)], "and none where no node would do, whatever room it had"
    talk.nodes(a_node("n3", {"memory": 100}, attributes={"zone": "b"}))
    talk.schedule()
    assert [one.node_selector for one in outstanding_requests(talk.model())] == ["zone=a"]
    talk.release(allocation_key="fill")
    talk.schedule()
    assert outstanding_requests(talk.model()) == []


def test_all_values_that_will_do_are_named() -> None:
    talk = a_conversation(a_node("n1", {"memory": 5}, attributes={"zone": "e"}))
    talk.asks(an_ask("k", 10, tags={"schedulerd.io/node-selector": "zone in (a,b,c,d,e),!spot"}))
    talk.schedule()
    assert [one.node_selector for one in outstanding_requests(talk.model())] == ["!spot,zone in (a,b,c,d,e)"]


def test_an_ask_that_may_not_be_together_with_others_is_no_matter_of_room() -> None:
    apart = AllocationAffinity("zone", (Expression("app", Operator.IN, ("db",)),), max_cardinality=1)
    talk = a_conversation(a_node("n1", {"memory": 50}, attributes={"zone": "a"}))
    constraint = PlacementConstraint(allocations=apart)
    talk.asks(*(an_ask(key, 10, tags={"app": "db"}, constraint=constraint) for key in ("one", "two")))
    talk.schedule()
    assert outstanding_requests(talk.model()) == []
    talk.asks(an_ask("large", 60, tags={"app": "db"}, constraint=constraint))
    talk.schedule()
    assert [(one.resources, one.affinity_scope) for one in outstanding_requests(talk.model())] == [
        ({"memory": 60}, "zone")
    ]
