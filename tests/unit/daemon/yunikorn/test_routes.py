"""Every route answers in the peer's shape, wrong requests included. tests/rest compares whole answers."""

from __future__ import annotations

import pytest

from schedulerd.config import Settings
from schedulerd.core.language.commands import NodeAction, NodeUpdate, UpdateNodes
from schedulerd.core.language.resources import Resources
from schedulerd.daemon.yunikorn.answers import JSON_TYPE
from schedulerd.daemon.yunikorn.errors import INVALID_QUEUE
from schedulerd.daemon.yunikorn.routes import EVERYBODY, ROUTES
from tests.loops import each_row
from tests.rest.world import World, open_settings
from tests.unit.daemon.yunikorn.cluster import QUEUES, RM, cluster, fill, get, request

P = "/ws/v1/partition/default"

EXAMPLES = {
    "{partition}": "default",
    "{queue}": "root.parent.leaf",
    "{application}": "app-1",
    "{state}": "active",
    "{node}": "node-1",
    "{user}": "ann",
    "{group}": "devs",
}


@pytest.fixture(scope="module")
def world() -> World:
    return cluster()


def example(path: str) -> str:
    for variable, name in EXAMPLES.items():
        path = path.replace(variable, name)
    return path


GETS = [route for route in ROUTES if route.method == "GET" and not route.path.endswith("/events/stream")]


@each_row("route", GETS, ids=lambda route: route.path)
def test_every_route_answers(world: World, route: object) -> None:
    answer = get(world, example(route.path))  # type: ignore[attr-defined]
    assert answer.status == 200
    assert answer.body.endswith(b"\n") or route.path.endswith("/metrics")  # type: ignore[attr-defined]


@each_row("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
@each_row("method", ["HEAD", "PUT", "POST", "DELETE", "PATCH"])
def test_another_method_is_not_allowed(world: World, route: object, method: str) -> None:
    own: str = route.method  # type: ignore[attr-defined]
    answer = request(world, method, example(route.path))  # type: ignore[attr-defined]
    if method == own:
        return
    assert (answer.status, answer.headers["allow"]) == (405, ", ".join(sorted([own, "OPTIONS"])))
    assert answer.body in (b"Method Not Allowed\n", b"")


@each_row("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_options_say_what_is_allowed_and_nothing_of_other_web_sites(world: World, route: object) -> None:
    answer = request(world, "OPTIONS", example(route.path), Origin="http://evil.example")  # type: ignore[attr-defined]
    assert (answer.status, answer.body) == (200, b"")
    assert not [name for name in answer.headers if name.startswith("access-control")]


@each_row(
    ("path", "status", "message"),
    [
        ("/ws/v1/partition/nope/queues", 404, "Partition not found"),
        ("/ws/v1/partition/%5Brm-1%5Ddefault/queues", 404, "Partition not found"),
        ("/ws/v1/partition//nodes", 404, "Partition not found"),
        ("/ws/v1/partition/nope/queue/root.parent", 404, "Partition not found"),
        ("/ws/v1/partition/nope/applications/active", 404, "Partition not found"),
        ("/ws/v1/partition/nope/application/app-1", 404, "Partition not found"),
        ("/ws/v1/partition/nope/placementrules", 404, "Partition not found"),
        ("/ws/v1/partition/nope/node/node-1", 404, "Partition not found"),
        (f"{P}/queue/root.nope", 404, "Queue not found"),
        (f"{P}/queue/parent.leaf", 404, "Queue not found"),
        (f"{P}/queue/root.nope/applications", 404, "Queue not found"),
        (f"{P}/queue/root.nope/applications/active", 404, "Queue not found"),
        (f"{P}/queue/root.nope/application/app-1", 404, "Queue not found"),
        (f"{P}/queue/root.we$b", 400, INVALID_QUEUE),
        (f"{P}/queue/root.{'a' * 65}/applications", 400, INVALID_QUEUE),
        (f"{P}/queue/root..leaf", 400, INVALID_QUEUE),
        (f"{P}/queue/root%2520x", 400, INVALID_QUEUE),
        (f"{P}/queue/root+x", 400, INVALID_QUEUE),
        (f"{P}/queue/root%25zz", 400, 'invalid URL escape "%zz"'),
        (f"{P}/queue/root%252", 400, 'invalid URL escape "%2"'),
        (f"{P}/queue/root.%C3%A9", 400, INVALID_QUEUE),
        (f"{P}/queue/root.other/application/app-1", 404, "Application not found"),
        (f"{P}/queue/root.parent.leaf/application/nope", 404, "Application not found"),
        (f"{P}/application/app-2", 404, "Application not found"),
        (f"{P}/application/%3Cscript%3E", 404, "Application not found"),
        (f"{P}/node/nope", 404, "Node not found"),
        (f"{P}/node/..%2F..%2Fetc%2Fpasswd", 404, "404 page not found\n"),
        (f"{P}/usage/user/nope", 404, "User not found"),
        *((f"/ws/v1/partition/nope/usage/{of}", 404, "Partition not found") for of in ("users", "groups")),
        *((f"/ws/v1/partition/nope/usage/{of}", 404, "Partition not found") for of in ("user/ann", "group/devs")),
        (f"{P}/usage/user/al%20ice!", 400, "Invalid user name"),
        (f"{P}/usage/user/1st", 400, "Invalid user name"),
        (f"{P}/usage/group/nope", 404, "Group not found"),
        (f"{P}/usage/group/a@b", 400, "Invalid group name"),
        (f"{P}/usage/group/*", 400, "Invalid group name"),
        (
            f"{P}/applications/bogus",
            400,
            "Only following application states are allowed: active, rejected, completed",
        ),
        (
            f"{P}/queue/root.parent.leaf/applications/completed",
            400,
            "Only following application states are allowed: active",
        ),
    ],
)
def test_what_is_not_there_or_no_legal_name(world: World, path: str, status: int, message: str) -> None:
    answer = get(world, path)
    assert answer.status == status
    if message.endswith("\n"):
        assert answer.text == message
        return
    assert answer.json == {"status_code": status, "message": message, "description": message}
    assert answer.headers["content-type"] == JSON_TYPE


@each_row(
    "path", ["/ws/v1/nope", "/ws", "/ws/v1", "/ws/v1/apps", "/ws/v1/queues", "/ws/v1/nodes", "/ws/v1/loglevel", "/WS/"]
)
def test_an_unknown_path_is_plain_text(world: World, path: str) -> None:
    answer = get(world, path)
    assert (answer.status, answer.text) == (404, "404 page not found\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@each_row(
    ("path", "location"),
    [
        ("/ws/v1/partitions/", "/ws/v1/partitions"),
        ("/ws/v1//partitions", "/ws/v1/partitions"),
        ("//ws/v1/partitions", "/ws/v1/partitions"),
        ("/WS/V1/Partitions", "/ws/v1/partitions"),
        ("/ws/v1/Partition/Default/Queues", "/ws/v1/partition/Default/queues"),
        (f"{P}/usage/user/", f"{P}/usage/user"),
        (f"{P}/node/", f"{P}/node"),
        ("/ws/v1/x/../partitions", "/ws/v1/partitions"),
        ("/ws/v1/Partition/%3Cb%3E/queues", "/ws/v1/partition/%3Cb%3E/queues"),
        ("/ws/v1/Partition/%0d%0aX:1/queues", "/ws/v1/partition/%0D%0AX:1/queues"),
    ],
)
def test_a_path_that_is_almost_right_is_redirected(world: World, path: str, location: str) -> None:
    answer = get(world, path, "rm=a&b=%22")
    assert (answer.status, answer.headers["location"]) == (301, f"{location}?rm=a&b=%22")
    assert f'<a href="{location}?rm=a&amp;b=%22">Moved Permanently</a>.' in answer.text


def test_a_redirected_post_keeps_its_method(world: World) -> None:
    answer = request(world, "POST", "/ws/v1/validate-conf/")
    assert (answer.status, answer.headers["location"], answer.body) == (307, "/ws/v1/validate-conf", b"")


def test_queue_names_ignore_case_and_are_decoded_twice(world: World) -> None:
    expected = get(world, f"{P}/queue/root.parent.leaf").json
    assert expected["queuename"] == "root.parent.leaf"
    for name in ("ROOT.Parent.LEAF", "root%2Eparent%2Eleaf", "root%252Eparent%252Eleaf"):
        assert get(world, f"{P}/queue/{name}").json == expected


def test_one_queue_has_children_only_with_the_key_subtree(world: World) -> None:
    assert "children" not in get(world, f"{P}/queue/root").json
    for query in ("subtree", "subtree=false", "subtree=&x=1"):
        found = get(world, f"{P}/queue/root", query).json
        assert {one["queuename"] for one in found["children"]} == {"root.parent", "root.other"}
    assert set(get(world, f"{P}/queue/root").json["childNames"]) == {"root.parent", "root.other"}


def test_an_application_with_what_runs_and_what_waits(world: World) -> None:
    found = get(world, f"{P}/application/app-1").json
    assert found["applicationState"] == "Running"  # Starting is shown as head does
    assert [one["allocationKey"] for one in found["allocations"]] == ["small"]
    assert [one["allocationKey"] for one in found["requests"]] == ["huge"]
    assert found["requests"][0]["allocationLog"][0]["message"].startswith("no node can ever fit 5000 memory")
    assert found["maxUsedResource"] == {"memory": 1_000, "vcore": 1_000}
    assert found == get(world, f"{P}/queue/root.parent.leaf/application/app-1").json
    assert found == get(world, f"{P}/queue//application/app-1").json


@pytest.mark.parametrize(("status", "count"), [("running", 1), ("RUNNING", 1), ("accepted", 0), ("", 1)])
def test_active_applications_by_status(world: World, status: str, count: int) -> None:
    for path in (f"{P}/applications/active", f"{P}/queue/root.parent.leaf/applications/active"):
        assert len(get(world, path, f"status={status}").json) == count


@pytest.mark.parametrize("path", [f"{P}/applications/active", f"{P}/queue/root.parent.leaf/applications/active"])
def test_a_status_that_there_is_not(world: World, path: str) -> None:
    answer = get(world, path, "status=starting")
    assert answer.status == 400
    assert answer.json["message"].startswith("Only following active statuses are allowed: ")


def test_applications_that_were_rejected(world: World) -> None:
    (found,) = get(world, f"{P}/applications/REJECTED", "status=bogus").json  # only looked at for active ones
    assert (found["applicationID"], found["applicationState"]) == ("app-2", "Rejected")
    assert "root.nowhere" in found["rejectedMessage"]
    assert get(world, f"{P}/applications/completed").json == []
    assert get(world, f"{P}/queue/root.parent/applications").json == []


def test_a_node(world: World) -> None:
    found = {one["nodeID"]: one for one in get(world, f"{P}/nodes").json}
    assert found.keys() == {"node-1", "node-2"}
    assert found["node-1"] == get(world, f"{P}/node/node-1").json
    used = next(one for one in found.values() if "allocations" in one)
    assert used["utilized"] == {"memory": 25, "vcore": 25}
    assert used["available"] == {"memory": 3_000, "vcore": 3_000}
    assert used["hostName"] == f"host-{used['nodeID']}"


def test_usage_of_users_and_groups(world: World) -> None:
    found = get(world, f"{P}/usage/user/ann").json
    assert found["groups"] == {"app-1": "devs"}
    leaf = found["queues"]["children"][0]["children"][0]
    assert leaf["queuePath"] == "root.parent.leaf"
    assert leaf["resourceUsage"] == {"memory": 1_000, "vcore": 1_000}
    assert (leaf["runningApplications"], leaf["maxApplications"]) == (["app-1"], 3)
    group = get(world, f"{P}/usage/group/devs").json
    assert group["applications"] == ["app-1"]
    assert group["queues"]["children"][0]["children"][0]["maxResources"] == {"vcore": 6_000}
    assert [one["userName"] for one in get(world, f"{P}/usage/users").json] == ["ann"]


def test_utilization_by_tenths(world: World) -> None:
    (of_partition,) = get(world, "/ws/v1/scheduler/node-utilizations").json
    memory = next(one for one in of_partition["utilizations"] if one["type"] == "memory")
    counts = [bucket.get("numOfNodes", 0) for bucket in memory["utilization"]]
    assert counts == [1, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert get(world, "/ws/v1/scheduler/node-utilization").json["type"] == "memory"


def test_before_any_registration() -> None:
    world = World()
    for path in ("/ws/v1/clusters", "/ws/v1/partitions", "/ws/v1/scheduler/node-utilizations"):
        assert get(world, path).json == []
    assert get(world, "/ws/v1/scheduler/node-utilization").json["message"] == "Partition not found"
    for route in ("users", "groups", "user/ann", "group/devs"):
        assert get(world, f"{P}/usage/{route}").json["message"] == "Partition not found"
    assert get(world, f"{P}/queues").json["message"] == "Partition not found"
    assert get(world, "/ws/v1/config", Accept="application/json").json["DeadlockTimeoutSeconds"] == 60


def test_each_resource_manager_has_its_own_default_partition() -> None:
    world = cluster()
    world.register(QUEUES, "rm-2")
    answer = get(world, f"{P}/queues")
    assert answer.status == 404
    assert '?rm=, of "rm-1", "rm-2"' in answer.json["message"]
    assert len(get(world, f"{P}/nodes", "rm=rm-1").json) == 2
    assert get(world, f"{P}/nodes", "rm=rm-2").json == []
    unknown = get(world, f"{P}/nodes", "rm=rm-3%22%0a")
    assert unknown.status == 404
    assert 'rm is "rm-3\\"\\n"; registered are "rm-1", "rm-2"' in unknown.json["message"]
    assert [one["clusterId"] for one in get(world, "/ws/v1/partitions").json] == ["rm-1", "rm-2"]
    assert [one["clusterId"] for one in get(world, "/ws/v1/partitions", "rm=rm-2").json] == ["rm-2"]
    assert get(world, "/ws/v1/config").status == 404
    assert get(world, "/ws/v1/config", "rm=rm-2").status == 200
    assert get(world, f"{P}/usage/users").status == 404


def test_an_answer_that_would_be_too_large_is_refused_and_not_cut() -> None:
    world = World(open_settings(rest_items_max=4))
    world.register(QUEUES, RM)
    fill(world, RM)
    assert get(world, f"{P}/nodes").status == 200  # two nodes with one allocation
    world.step(UpdateNodes(RM, [_node(f"more-{number}") for number in range(3)]))
    for path in (f"{P}/nodes", "/ws/v1/fullstatedump", f"{P}/queues"):
        answer = get(world, path)
        if path.endswith("queues"):
            assert answer.status == 200  # root, parent, leaf and other
            continue
        assert answer.status == 503
        assert "rest_items_max allows 4; /api/v1" in answer.json["message"]


def _node(name: str) -> NodeUpdate:
    return NodeUpdate(name, NodeAction.CREATE, capacity=Resources(memory=1, vcore=1))


def test_everything_but_metrics_needs_access() -> None:
    closed = World(Settings())
    for route in ROUTES:
        if route.path.endswith("/events/stream") and route.guard == EVERYBODY:
            continue
        answer = request(closed, route.method, example(route.path))
        assert answer.status == (200 if route.guard == EVERYBODY else 403), route.path
        if answer.status == 403:
            assert answer.json["message"] == answer.json["description"]
            assert route.guard in answer.json["message"]


def test_origins_that_may_read(world: World) -> None:
    assert "access-control-allow-origin" not in get(world, "/ws/v1/clusters", Origin="https://ui.example").headers
    opened = World(open_settings(cors_origins=("https://ui.example",)))
    allowed = get(opened, "/ws/v1/clusters", Origin="https://ui.example")
    assert allowed.headers["access-control-allow-origin"] == "https://ui.example"
    assert allowed.headers["vary"] == "Origin"
    for origin in ("https://evil.example", "https://ui.example.evil", "null"):
        assert "access-control-allow-origin" not in get(opened, "/ws/v1/clusters", Origin=origin).headers
    everybody = World(open_settings(cors_origins=("*",)))
    assert get(everybody, "/ws/v1/clusters", Origin="https://x").headers["access-control-allow-origin"] == "*"


HOSTILE = ["<script>alert(1)</script>", "a\u2028b", "\x1b[31mred", 'a"b\\c', "\u202egnp", "&amp;"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_escaped(name: str) -> None:
    world = World()
    world.register(QUEUES, RM, build_info={name: name})
    node = NodeUpdate(name, NodeAction.CREATE, capacity=Resources(memory=1), attributes={"label": name})
    world.step(UpdateNodes(RM, [node]))
    for path in (f"{P}/nodes", "/ws/v1/clusters", "/ws/v1/fullstatedump", "/ws/v1/events/batch"):
        answer = get(world, path)
        assert not set("<>&\u2028\x1b") & set(answer.text)
        assert answer.json is not None
    shown = get(world, f"{P}/nodes").json
    assert [one["attributes"]["label"] for one in shown] in ([name], [])  # a node may be refused for its name


def test_stacks_name_threads_and_tasks(world: World) -> None:
    for path in ("/ws/v1/stack", "/debug/stack"):
        answer = get(world, path)
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert "thread MainThread:" in answer.text
        assert "task " in answer.text


def test_the_dump_has_what_the_routes_have(world: World) -> None:
    found = get(world, "/debug/fullstatedump").json
    assert found["partitions"] == get(world, "/ws/v1/partitions").json
    assert found["queues"] == [get(world, f"{P}/queues").json]
    assert found["nodes"] == [{"partitionName": "default", "nodesInfo": get(world, f"{P}/nodes").json}]
    assert {one["applicationID"] for one in found["applications"]} == {"app-1", "app-2"}
    assert found["placementRules"][0]["rules"] == get(world, f"{P}/placementrules").json
    assert found["config"] == get(world, "/ws/v1/config", Accept="application/json").json
