"""What is told of one thing, on a small cluster that is played by hand."""

from __future__ import annotations

from schedulerd.core.language.commands import (
    AllocationRelease,
    AskRelease,
    Command,
    ConnectResourceManager,
    DisconnectResourceManager,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RunCycle,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.replay.story import WAITS, Story
from tests.instants import at
from tests.unit.replay.recorded import RM, START_NS, new_scheduler, played, registration

CORE = Resources(vcore=1_000)


def a_node(name: str) -> NodeUpdate:
    return NodeUpdate(name, NodeAction.CREATE, capacity=Resources(vcore=4_000))


def asks(*keys: str, application_id: str = "notebook") -> Command:
    return UpdateAllocations(RM, asks=[NewAsk(application_id, key, CORE) for key in keys])


COMMANDS: list[Command] = [
    registration(),
    ConnectResourceManager(RM),
    UpdateNodes(RM, [a_node("n1"), a_node("n2")]),
    UpdateApplications(
        RM,
        new=[
            NewApplication("notebook", "root.ml.notebooks", user="ann"),
            NewApplication("bad", "root.nosuch", user="ann"),
        ],
    ),
    asks("k1", "k2", "k3", "k4", "k5", "k6"),
    RunCycle(50),
    UpdateAllocations(RM, releases=[AllocationRelease("notebook", uuid="uuid-1")]),
    RunCycle(50),
    DisconnectResourceManager(RM),
    ConnectResourceManager(RM),
    asks("k7"),
    UpdateAllocations(RM, ask_releases=[AskRelease("notebook", allocation_key="k6")]),
]
"""The queue takes four of them at a time."""


def a_story(subject: str, *more: Command) -> Story:
    scheduler = new_scheduler()
    story = Story(subject, scheduler)
    history = [(START_NS + number * SECOND_NS, command) for number, command in enumerate([*COMMANDS, *more])]
    for step in played(history, scheduler):
        story.observe(step, at(step.now_ns))
    story.finish(at(history[-1][0]))
    return story


def told(story: Story) -> list[tuple[int, str]]:
    return [((row.now.monotonic_ns - START_NS) // SECOND_NS, row.event) for row in story.rows]


def test_an_application_is_told_with_all_it_asked_for_and_what_kept_it_waiting() -> None:
    story = a_story("notebook")
    assert story.kinds == ["application"]
    assert told(story) == [
        (3, "application accepted"),
        (3, "application changed"),
        (4, "application changed"),
        *[(4, "ask added")] * 6,
        (5, "application changed"),
        (5, "allocated"),
        (5, "application changed"),
        *[(5, "allocated")] * 3,
        (5, WAITS),
        (6, "released"),
        (7, "allocated"),
        (7, WAITS),
        (8, "resource manager changed"),
        (8, WAITS),
        (9, "resource manager changed"),
        (9, WAITS),
        (10, "ask added"),
        (11, "ask withdrawn"),
        (11, WAITS),
    ]
    waits = next(row for row in story.rows if row.event == WAITS)
    assert waits.values["allocation_key"] == "k5"
    assert waits.values["asks"] == 2
    assert "root.ml.notebooks" in str(waits.values["reason"])


def test_an_ask_is_told_alone() -> None:
    assert told(a_story("k6")) == [
        (4, "ask added"),
        (5, WAITS),
        (8, "resource manager changed"),
        (8, WAITS),
        (9, "resource manager changed"),
        (9, WAITS),
        (11, "ask withdrawn"),
    ]


def test_an_allocation_is_known_by_its_uuid() -> None:
    story = a_story("uuid-1")
    assert story.kinds == ["allocation"]
    assert [event for _, event in told(story)][:2] == ["allocated", "released"]
    assert story.rows[0].values["allocation_key"] == "k1"


def test_a_node_has_what_ran_on_it() -> None:
    story = a_story("n1")
    assert story.kinds == ["node"]
    assert [event for _, event in told(story)].count("allocated") >= 2
    assert {row.values.get("node_id", "n1") for row in story.rows} == {"n1"}


def test_a_queue_has_its_rules_and_the_applications_that_were_in_it() -> None:
    story = a_story("root.ml.notebooks")
    assert story.kinds == ["queue"]
    assert story.rows[0].event == "queue changed"
    assert {"application changed", "ask added", "allocated", "released"} <= {row.event for row in story.rows}


def test_a_queue_is_found_however_it_is_written() -> None:
    assert told(a_story("ROOT.ML.Notebooks")) == told(a_story("root.ml.notebooks")) != []


def test_a_refusal_has_its_reason() -> None:
    (rejected,) = (row for row in a_story("bad").rows if row.event == "application rejected")
    assert "root.nosuch" in str(rejected.values["reason"])


def test_an_id_of_several_kinds_is_told_as_all_of_them() -> None:
    story = a_story(
        "n2",
        UpdateApplications(RM, new=[NewApplication("n2", "root.batch", user="ann")]),
        asks("x", application_id="n2"),
    )
    assert story.kinds == ["node", "application"]
    assert {"node changed", "application accepted"} <= {row.event for row in story.rows}
    both = a_story("notebook", asks("notebook"))
    assert both.kinds == ["application", "ask"]


def test_what_does_not_occur_has_near_ones() -> None:
    story = a_story("notebok")
    assert story.rows == []
    assert story.nearest()[0] == "notebook"
    assert a_story("nothing-like-it-at-all-by-far").nearest() == []


def test_no_ids_are_kept_of_a_history_in_which_it_occurs() -> None:
    assert a_story("notebook")._ids == set()
    assert len(a_story("notebok")._ids) > 10


def test_the_text_of_a_queue_file_is_not_told() -> None:
    new = registration("partitions: [{name: default, queues: [{name: root, queues: [{name: batch}]}]}]")
    story = a_story("notebook", UpdateConfiguration(RM, new.partitions, new.configuration))
    (reload,) = (row for row in story.rows if row.event == "queue file reloaded")
    assert reload.values["configuration"] == "a test"
    assert "partitions:" not in str(story.rows)
