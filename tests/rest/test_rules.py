"""What a rule excuses, and what it does not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.loops import each_row
from tests.rest.compare import MISSING, Difference, differences, normalized
from tests.rest.projection import to_head
from tests.rest.rules import EXCUSES
from tests.rest.transforms import TRANSFORMS, Facts, Pair

OF_HEAD = Facts()


def excused(difference: Difference, pair: Pair, facts: Facts = OF_HEAD) -> list[str]:
    return [one.name for one in EXCUSES if one.takes(difference, pair, facts)]


def transformed(name: str, expected: Any, actual: Any, facts: Facts) -> Pair:
    pair = Pair("", "/ws/v1/partition/default/nodes", expected, actual)
    (rule,) = [one for one in TRANSFORMS if one.name == name]
    rule.apply(pair, facts)
    return pair


def test_lists_without_order_are_matched_by_what_identifies_their_items() -> None:
    there = [{"nodeID": "b", "x": 1}, {"nodeID": "a", "x": 1}]
    here = [{"nodeID": "a", "x": 1}, {"nodeID": "b", "x": 2}, {"nodeID": "c"}]
    found = list(differences(there, here))
    assert found == [Difference("/b/x", 1, 2), Difference("/c", MISSING, {"nodeID": "c"})]


def test_an_order_that_means_something_is_compared() -> None:
    log = [{"applicationState": "Accepted"}, {"applicationState": "Running"}]
    assert len(list(differences({"stateLog": log}, {"stateLog": log[::-1]}))) == 2
    assert list(differences({"children": log}, {"children": log[::-1]})) == []


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"time": 5}, {"time": "T"}),
        ({"finishedTime": 0}, {"finishedTime": 0}),
        ({"startTime": -62135596800000}, {"startTime": -62135596800000}),
        ({"uuid": "x"}, {"uuid": "UUID"}),
        ({"reason": "because"}, {"reason": "text"}),
        ({"reason": ""}, {"reason": ""}),
        ({"message": "Queue not found"}, {"message": "Queue not found"}),
    ],
)
def test_what_is_different_in_each_run_is_taken_out(value: object, kept: object) -> None:
    assert normalized(value) == kept


def test_a_truth_value_is_no_number() -> None:
    assert len(list(differences({"a": True}, {"a": 1}))) == 1


def test_several_allocations_of_one_ask_must_be_as_many() -> None:
    facts = Facts(several={"a": 2})
    there = {"requests": [{"allocationKey": "a-0"}, {"allocationKey": "a-1"}]}
    same = transformed("several", there, {"requests": [{"allocationKey": "a", "pendingCount": 2}]}, facts)
    assert same.expected == same.actual
    other = transformed("several", there, {"requests": [{"allocationKey": "a", "pendingCount": 3}]}, facts)
    assert other.expected != other.actual


def test_foreign_allocations_are_what_is_occupied() -> None:
    node = {"nodeID": "n", "foreignAllocations": [1], "occupied": {"vcore": 5}, "available": {"vcore": 10}}
    same = transformed("foreign", [dict(node)], [{"nodeID": "n", "occupied": {"vcore": 5}}], OF_HEAD)
    assert same.expected == [{"nodeID": "n", "occupied": {"vcore": 5}, "available": {"vcore": 10}}]
    not_reported = transformed("foreign", [dict(node)], [{"nodeID": "n"}], OF_HEAD)
    assert not_reported.expected == [{"nodeID": "n", "available": {"vcore": 15}}]


def test_where_allocations_are_counts_unless_the_sums_agree() -> None:
    there, here = [{"nodeID": "n", "allocated": {"vcore": 1}}], [{"nodeID": "n", "allocated": {"vcore": 2}}]
    assert transformed("placement", there, here, Facts(moved=False)).expected != here
    same = transformed("placement", there, here, Facts(moved=True))
    assert same.expected == same.actual


def test_placeholders_are_counted() -> None:
    def of(*keys: str) -> Any:
        return [{"allocationKey": key, "placeholder": True, "taskGroupName": "tg", "nodeId": key} for key in keys]

    facts = Facts(members=dict.fromkeys("abc", "a placeholder of app/tg"))
    same = transformed("placeholder", of("a", "b"), of("b", "c"), facts)
    assert list(differences(same.expected, same.actual)) == []
    fewer = transformed("placeholder", of("a", "b"), of("c"), facts)
    assert len(list(differences(fewer.expected, fewer.actual))) == 1


def _health(*succeeded: bool, healthy: bool) -> Any:
    return {"Healthy": healthy, "HealthChecks": [{"Succeeded": one} for one in succeeded]}


DUMP = "/ws/v1/fullstatedump"
HEALTH = Pair("", "/healthcheck", _health(False, True, healthy=False), _health(True, True, healthy=True))
NOT_SO = Pair("", "/healthcheck", _health(True, True, healthy=False), _health(True, True, healthy=True))
FAILED, GHOST = Facts(failures=Counter(ask=1)), Facts(ghosts=1)
REFUSED = {"allowed": False, "reason": "text"}
ODD_RULE = "partitions: [{name: default, placementrules: [{name: odd}], queues: [{name: root}]}]"
PARTITIONS = Pair("partitions", "/ws/v1/partitions", [], [])
EVENTS = Pair("events", "/ws/v1/events/batch", {}, {"EventRecords": {}})
NODES = Pair("nodes", "/ws/v1/partition/default/nodes", [], [])
QUEUES = Pair("queues", "/ws/v1/partition/default/queues", {}, {})
WRONG = Facts(of_head=False, asked={"gpu"})
KEPT = Facts(kept_nodes={"n": {"vcore": 8}})
UTILIZATIONS = Pair("", "/ws/v1/scheduler/node-utilizations", [], [])
ONE_MORE = Facts(duplicates=Counter({"app": 1}))


@each_row(
    ("difference", "pair", "facts", "names"),
    [
        (Difference("/default/applications/total", 8, 7), PARTITIONS, ONE_MORE, ["duplicate"]),
        (Difference("/default/applications/total", 9, 7), PARTITIONS, ONE_MORE, []),
        (Difference("/default/applications/Running", 8, 7), PARTITIONS, ONE_MORE, []),
        (Difference("/default/applications/total", 8, 7), PARTITIONS, OF_HEAD, []),
        (
            Difference("/attributes/zone", "z1", MISSING),
            Pair("", "/node/n", {}, {"nodeID": "n"}),
            Facts(renamed_nodes={"n": {"ready": "true"}}),
            ["attributes"],
        ),
        (
            Difference("/attributes/zone", "z1", "z2"),
            Pair("", "/node/n", {}, {"nodeID": "n"}),
            Facts(renamed_nodes={"n": {"ready": "true"}}),
            [],
        ),
        (
            Difference("/attributes/zone", "z1", "z2"),
            Pair("", "/node/n", {}, {"nodeID": "n"}),
            Facts(renamed_nodes={"n": {"zone": "z2"}}),
            ["attributes"],
        ),
        (
            Difference("/n/hostName", "h1", "h2"),
            Pair("", "/nodes", [], []),
            Facts(renamed_nodes={"n": {"si/hostname": "h2"}}),
            ["attributes"],
        ),
        (Difference("/EventRecords/2:2:299:app:", 1, MISSING), EVENTS, OF_HEAD, ["later code"]),
        (Difference("/EventRecords/5:1:601:ann:", 1, MISSING), EVENTS, OF_HEAD, ["later code"]),
        (Difference("/EventRecords/2:2:299:app:", MISSING, 1), EVENTS, OF_HEAD, []),
        (Difference("/EventRecords/2:2:201:app:", 1, MISSING), EVENTS, OF_HEAD, []),
        (Difference("/children/a/allocatedResource/memory", 5, 4), QUEUES, WRONG, ["wrong in 1.4"]),
        (Difference("/children/a/maxResource/memory", 5, 4), QUEUES, WRONG, []),
        (Difference("/children/a/allocatedResource/memory", 5, 4), QUEUES, Facts(of_head=False), []),
        (Difference("/allocatingAcceptedApps", ["x"], MISSING), PARTITIONS, OF_HEAD, ["leaked"]),
        (Difference("/allocatingAcceptedApps", ["x"], MISSING), PARTITIONS, Facts(active={"x"}), []),
        (Difference("/placeholderData/tg/timedout", 4, 3), PARTITIONS, OF_HEAD, []),
        (
            Difference("/allowed", True, False),
            Pair("", "/ws/v1/validate-conf", {"allowed": True}, REFUSED, sent=ODD_RULE),
            OF_HEAD,
            ["stricter"],
        ),
        (
            Difference("/allowed", True, False),
            Pair("", "/ws/v1/validate-conf", {"allowed": True}, REFUSED, sent=ODD_RULE.replace("odd", "fixed")),
            OF_HEAD,
            ["stricter"],
        ),
        (
            Difference("/allowed", True, False),
            Pair("", "/ws/v1/validate-conf", {"allowed": True}, REFUSED, sent=ODD_RULE.replace("root", "a b")),
            OF_HEAD,
            [],
        ),
        (Difference("status", 301, 200), Pair("", DUMP, "", {}), OF_HEAD, ["answered"]),
        (Difference("status", 301, 500), Pair("", DUMP, "", {}, status=500), OF_HEAD, []),
        (Difference("/Healthy", False, True), HEALTH, OF_HEAD, ["failures"]),
        (Difference("/Healthy", False, True), NOT_SO, FAILED, []),
        (Difference("/HealthChecks/0/Succeeded", False, True), HEALTH, OF_HEAD, []),
        (Difference("/HealthChecks/0/Succeeded", False, True), HEALTH, FAILED, ["failures"]),
        (Difference("/HealthChecks/0/Succeeded", False, True), HEALTH, GHOST, ["failures"]),
        (Difference("/HealthChecks/0/Succeeded", True, False), HEALTH, GHOST, []),
        (Difference("/HealthChecks/1/Succeeded", True, False), HEALTH, FAILED, []),
        (Difference("/EventRecords/4:1:403:root", 4, MISSING), EVENTS, Facts(reports=4), ["codes"]),
        (Difference("/EventRecords/4:1:403:root", 5, MISSING), EVENTS, Facts(reports=4), []),
        (Difference("/EventRecords/2:1:202:app", 1, MISSING), EVENTS, Facts(rejected={"app"}), ["codes"]),
        (Difference("/EventRecords/2:1:202:app", 1, MISSING), EVENTS, OF_HEAD, []),
        (Difference("/EventRecords/2:3:100:app", 3, 1), EVENTS, OF_HEAD, ["codes"]),
        (Difference("/EventRecords/2:3:100:app", 1, 3), EVENTS, OF_HEAD, []),
        (Difference("/EventRecords/2:3:0:app", 1, MISSING), EVENTS, OF_HEAD, ["codes"]),
        (Difference("/EventRecords/2:3:0:app", 1, MISSING), EVENTS, Facts(active={"app"}), []),
        (
            Difference("/EventRecords/2:3:0:app", 1, MISSING),
            EVENTS,
            Facts(active={"app"}, submitted=Counter(app=2)),
            ["codes"],
        ),
        (Difference("/EventRecords/3:1:302:n", MISSING, 1), EVENTS, OF_HEAD, []),
        (
            Difference("/allowed", False, True),
            Pair("", "/ws/v1/validate-conf", {"allowed": False}, {"allowed": True}),
            OF_HEAD,
            [],
        ),
        (Difference("/HealthChecks/3/Succeeded", True, False), Pair("", "/healthcheck", {}, {}), OF_HEAD, []),
        (Difference("/EventRecords/2:2:204:a", 1, MISSING), Pair("", "/events/batch", {}, {}), OF_HEAD, []),
        (Difference("/n", MISSING, {}), NODES, KEPT, ["unclaimed"]),
        (Difference("/n", MISSING, {}), NODES, OF_HEAD, []),
        (Difference("/n", {}, MISSING), NODES, KEPT, []),
        (Difference("/m", MISSING, {}), NODES, KEPT, []),
        (Difference("status", 400, 200), Pair("", "/ws/v1/partition/default/node/n", {}, {}), KEPT, ["unclaimed"]),
        (Difference("status", 400, 200), Pair("", "/ws/v1/partition/default/node/m", {}, {}), KEPT, []),
        (Difference("/EventRecords/3:2:0:n", MISSING, 1), EVENTS, KEPT, ["unclaimed"]),
        (Difference("/EventRecords/3:2:304:m", MISSING, 1), EVENTS, KEPT, []),
        (Difference("/default/totalNodes", 1, 2), PARTITIONS, KEPT, ["unclaimed"]),
        (Difference("/default/totalNodes", 1, 3), PARTITIONS, KEPT, []),
        (Difference("/default/capacity/capacity/vcore", 8, 16), PARTITIONS, KEPT, ["unclaimed"]),
        (Difference("/default/capacity/capacity/vcore", 8, 17), PARTITIONS, KEPT, []),
        (Difference("/default/capacity/capacity/vcore", 8, 15), PARTITIONS, KEPT, []),
        (Difference("/children/a/headroom/vcore", 8, 12), QUEUES, KEPT, ["unclaimed"]),
        (Difference("/children/a/headroom/vcore", 8, 7), QUEUES, KEPT, []),
        (Difference("/children/a/headroom/memory", 8, 9), QUEUES, KEPT, []),
        (Difference("/children/a/allocatedResource/vcore", 4, 5), QUEUES, KEPT, []),
        (Difference("/default/utilizations/vcore/utilization/0/numOfNodes", 1, 2), UTILIZATIONS, KEPT, ["unclaimed"]),
        (Difference("/default/utilizations/vcore/utilization/0/numOfNodes", 1, 3), UTILIZATIONS, KEPT, []),
        (
            Difference("/default/utilizations/vcore/utilization/0/nodeNames", MISSING, ["n"]),
            UTILIZATIONS,
            KEPT,
            ["unclaimed"],
        ),
        (
            Difference("/default/utilizations/vcore/utilization/0/nodeNames", MISSING, ["n", "m"]),
            UTILIZATIONS,
            KEPT,
            [],
        ),
        (Difference("", None, {}), PARTITIONS, OF_HEAD, []),
        (Difference("status", 404, 200), PARTITIONS, OF_HEAD, []),
    ],
)
def test_excuses(difference: Difference, pair: Pair, facts: Facts, names: list[str]) -> None:
    assert excused(difference, pair, facts) == names


@pytest.mark.parametrize(
    ("path", "status", "message", "projected"),
    [
        ("/x", 400, "Queue not found", (404, "Queue not found")),
        ("/usage/user/al%20ice!", 400, "User not found", (400, "Invalid user name")),
        ("/x", 400, "Event tracking is disabled", (500, "Event tracking is disabled")),
        ("/x", 400, "Illegal number of events: 0", (400, '0 is not a valid value for "count"')),
        ("/x", 400, "Illegal id: -1", (400, 'strconv.ParseUint: parsing "-1": invalid syntax')),
        ("/x", 400, "something else", (400, "something else")),
    ],
)
def test_errors_of_1_4_as_head_gives_them(path: str, status: int, message: str, projected: tuple[int, str]) -> None:
    error = {"status_code": status, "message": message, "description": message}
    found, _, body, _ = to_head(path, status, {}, error, {})
    assert (found, body["message"]) == projected


def test_objects_of_1_4_as_head_gives_them() -> None:
    there = {
        "applicationState": "Starting",
        "stateLog": [{"applicationState": one} for one in ("Accepted", "Starting", "Running")],
        "reservations": ["node-1|key"],
        "pendingResource": {"pods": 0, "vcore": 5},
        "allocations": [{"allocationKey": "a", "uuid": "UUID", "partition": "default"}],
        "resourceUsage": {"Resources": {"vcore": 1, "pods": 0}},
    }
    ours = {"applicationState": "Running", "startTime": 5, "resourceHistory": {}}
    _, _, expected, actual = to_head("/x", 200, {}, there, ours)
    assert expected == {
        "applicationState": "Running",
        "stateLog": [{"applicationState": "Accepted"}, {"applicationState": "Running"}],
        "reservations": ["key"],
        "pendingResource": {"vcore": 5},
        "allocations": [{"allocationKey": "a"}],
        "resourceUsage": {"vcore": 1},
    }
    assert actual == {"applicationState": "Running"}
    assert to_head("/x", 200, {}, None, [])[2] == []


@pytest.mark.parametrize(
    ("message", "path", "is_excused"),
    [
        ("Partition not found", "/ws/v1/partition/nope/usage/users", True),
        ("Partition not found", "/ws/v1/partition/nope/usage/user/ann", True),
        ("User not found", "/ws/v1/partition/nope/usage/user/ann", False),
        ("Partition not found", "/ws/v1/partition/nope/queues", False),
        ("Partition not found", "/ws/v1/partition/default/usage/users", False),
    ],
)
def test_the_usage_of_a_partition_that_does_not_exist_is_a_404(message: str, path: str, is_excused: bool) -> None:
    pair = Pair("", path, [], {"status_code": 404, "message": message}, status=404)
    facts = Facts(partitions={"default"})
    assert ("no partition" in excused(Difference("status", 200, 404), pair, facts)) is is_excused
