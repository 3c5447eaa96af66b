"""What a reload would do, said before it is done: each kind of difference, and nothing where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedulerd.core.configuration.rules import reload as reload_rules
from schedulerd.core.configuration.rules.reload import Assessment, assess
from schedulerd.core.configuration.rules.rule_words import describe_rules
from schedulerd.core.language.commands import UpdateConfiguration
from schedulerd.core.language.facts.configuration import ConfigurationUpdated, Impact, ImpactKind
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import (
    SECOND_NS,
    FilterSpec,
    LimitSpec,
    NodeOrder,
    PartitionSpec,
    QueueProperties,
    QueueSpec,
    RuleKind,
    RuleSpec,
)
from tests.unit.core.builders import (
    EVERYBODY,
    RM,
    Conversation,
    a_node,
    a_scheduler,
    an_app,
    an_ask,
    of,
)

CREATES = (RuleSpec(RuleKind.PROVIDED, create=True),)


def a_file(*children: QueueSpec, **fields: object) -> PartitionSpec:
    root = QueueSpec("root", parent=True, submit_acl=EVERYBODY, children=children)
    return replace(PartitionSpec("default", root, CREATES), **fields)  # type: ignore[arg-type]


def running(spec: PartitionSpec, *others: PartitionSpec) -> Conversation:
    """Three allocations of 10 memory each for an application `app` of the user `somebody`, group `dev`, in root.a."""
    talk = Conversation(a_scheduler())
    talk.register(spec, *others)
    talk.connect()
    talk.nodes(a_node("n1", {"memory": 100}))
    talk.apps(an_app(groups=("dev",)))
    talk.asks(an_ask("k", count=3))
    talk.schedule()
    return talk


def assessed(talk: Conversation, *specs: PartitionSpec) -> Assessment:
    return assess(talk.scheduler.cluster.resource_managers[RM], specs, talk.scheduler.cluster.matches)


def impact(talk: Conversation, *specs: PartitionSpec) -> list[Impact]:
    found = assessed(talk, *specs)
    assert found.refusals == ()
    return list(found.impact)


def told(talk: Conversation, *specs: PartitionSpec) -> list[tuple[ImpactKind, str, bool, str]]:
    return [(one.kind, one.queue, one.harms, one.message) for one in impact(talk, *specs)]


def the(talk: Conversation, *specs: PartitionSpec) -> tuple[ImpactKind, str, bool, str]:
    [only] = impact(talk, *specs)
    return only.kind, only.queue, only.harms, only.message


def reload(talk: Conversation, *specs: PartitionSpec) -> None:
    [told] = of(ConfigurationUpdated, talk.step(UpdateConfiguration(RM, specs)))
    assert told.changed


A = QueueSpec("a")


def test_the_same_file_changes_nothing() -> None:
    talk = running(a_file(A))
    assert assessed(talk, a_file(A)) == Assessment((), False, ())


def test_a_change_without_effect_has_no_impact() -> None:
    assert assessed(running(a_file(A)), a_file(replace(A, max=Limits(memory=30)))) == Assessment((), True, ())


def test_a_queue_above_its_new_max() -> None:
    used = "memory 30 used, max unlimited becomes 20"
    assert the(running(a_file(A)), a_file(replace(A, max=Limits(memory=20, vcore=0)))) == (
        ImpactKind.OVER_MAX,
        "root.a",
        True,
        f"queue root.a will be above its max: {used}; nothing is allocated in it until 10 are free",
    )


def test_a_queue_above_its_new_max_of_which_the_rest_is_ended_in_time() -> None:
    timed = replace(A, max=Limits(memory=20), properties=QueueProperties(quota_preemption_delay_ns=90 * SECOND_NS))
    _, _, _, message = the(running(a_file(A)), a_file(timed, quota_preemption_enabled=True))
    assert message.endswith(
        "nothing is allocated in it until 10 are free, and allocations above the max in 90 s are preempted "
        "(quota.preemption.delay)"
    )


def test_a_gang_that_waits_and_could_never_start() -> None:
    talk = running(a_file(replace(A, max=Limits(memory=100))))
    talk.apps(
        an_app("gang", placeholder_ask=Resources(memory=80)), an_app("small", placeholder_ask=Resources(memory=40))
    )
    why = "its placeholderAsk wants 80 memory, and max of queue root.a becomes 50"
    assert the(talk, a_file(replace(A, max=Limits(memory=50)))) == (
        ImpactKind.GANG_TOO_LARGE,
        "root.a",
        True,
        f"the gang of application gang will never start: {why}",
    )
    reload(talk, a_file(replace(A, max=Limits(memory=50))))
    assert impact(talk, a_file(replace(A, max=Limits(memory=45)))) == [], "that is no news"


def test_a_queue_that_is_above_its_max_already_is_not_news_unless_the_max_changes() -> None:
    talk = running(a_file(A))
    lowered = a_file(replace(A, max=Limits(memory=20)))
    reload(talk, lowered)
    assert impact(talk, a_file(replace(A, max=Limits(memory=20)), QueueSpec("b")))[0].kind is ImpactKind.QUEUE_ADDED
    [still] = impact(talk, a_file(replace(A, max=Limits(memory=25))))
    assert "max 20 becomes 25" in still.message


def test_a_created_queue_that_the_file_names_is_kept_and_compared_too() -> None:
    talk = running(a_file(A))
    talk.apps(an_app("other", "root.ns"))
    talk.asks(an_ask("o", app="other"))
    talk.schedule()
    found = impact(talk, a_file(A, QueueSpec("ns", max=Limits(memory=5))))
    assert [(one.kind, one.queue) for one in found] == [
        (ImpactKind.OVER_MAX, "root.ns"),
        (ImpactKind.QUEUE_KEPT, "root.ns"),
    ]


def test_more_applications_than_may_run() -> None:
    talk = running(a_file(A))
    talk.apps(an_app("app-2"))
    talk.asks(an_ask("x", app="app-2"))
    talk.schedule()
    kind, queue, harms, message = the(talk, a_file(replace(A, max_applications=1)))
    assert (kind, queue, harms) == (ImpactKind.OVER_MAX_APPLICATIONS, "root.a", True)
    assert (
        "runs 2 applications, maxapplications unlimited becomes 1; no further one starts until 2 have ended" in message
    )


def test_a_queue_that_is_not_named_any_more_drains_with_its_applications() -> None:
    kind, queue, harms, message = the(running(a_file(A)), a_file())
    assert (kind, queue, harms) == (ImpactKind.QUEUE_DRAINS, "root.a", True)
    assert message.endswith("accepts nothing new; it has 1 application to finish: app")


def test_the_names_of_applications_are_bounded() -> None:
    talk = running(a_file(A))
    talk.apps(*(an_app(f"app-{at}") for at in range(10)))
    assert the(talk, a_file())[3].endswith(
        "it has 11 applications to finish: app, app-0, app-1, app-2, app-3 and 6 more"
    )


def test_a_removed_tree_is_one_difference_and_so_is_a_new_one() -> None:
    tree = QueueSpec("t", children=(QueueSpec("x"), QueueSpec("y")))
    talk = running(a_file(A, tree))
    gone = "is no longer in the file and accepts nothing new; it is empty and is removed"
    assert the(talk, a_file(A)) == (
        ImpactKind.QUEUE_DRAINS,
        "root.t",
        False,
        f"queue root.t with 2 queues below it {gone}",
    )
    assert the(talk, a_file(A, tree, replace(tree, name="u"))) == (
        ImpactKind.QUEUE_ADDED,
        "root.u",
        False,
        "queue root.u is new, with 2 queues below it",
    )


def test_a_queue_that_comes_back_while_it_drains() -> None:
    talk = running(a_file(A))
    reload(talk, a_file())
    assert the(talk, a_file(A)) == (
        ImpactKind.QUEUE_RETURNS,
        "root.a",
        False,
        "queue root.a is back: it accepts applications again",
    )
    assert impact(talk, a_file(QueueSpec("b")))[0].kind is ImpactKind.QUEUE_ADDED, "what drains already is not news"


def test_an_empty_leaf_may_become_a_parent_and_back() -> None:
    talk = running(a_file(A, QueueSpec("b")))
    kind, queue, harms, message = the(talk, a_file(A, QueueSpec("b", parent=True)))
    assert (kind, queue, harms, message) == (
        *(ImpactKind.QUEUE_TURNS, "root.b", False),
        "queue root.b turns from a leaf into a parent",
    )
    reload(talk, a_file(A, QueueSpec("b", parent=True)))
    talk.apps(an_app("inside", "root.b.x"))
    found = impact(talk, a_file(A, QueueSpec("b")))
    assert [(one.kind, one.queue, one.harms) for one in found] == [
        (ImpactKind.QUEUE_DRAINS, "root.b.x", True),
        (ImpactKind.QUEUE_TURNS, "root.b", False),
    ]


def test_a_leaf_in_use_cannot_become_a_parent() -> None:
    found = assessed(running(a_file(A)), a_file(replace(A, parent=True)))
    assert found.impact == ()
    assert found.refusals == (
        "queue root.a has 1 application and cannot become a parent; let them finish or remove them first",
    )


def test_a_removed_partition_ends_what_is_in_it() -> None:
    gpu = a_file(A, name="gpu")
    talk = running(a_file(A), gpu)
    assert the(talk, a_file(A))[2:] == (
        False,
        "partition gpu is no longer in the file: it is empty and is removed",
    )
    ends = "ends 1 application with 2 allocations and 1 pending, and removes 1 node"
    talk.nodes(a_node("g1", {"memory": 20}, partition="gpu"))
    talk.apps(an_app("g", partition="gpu"))
    talk.asks(an_ask("k", app="g", count=3, partition="gpu"))
    talk.schedule()
    assert the(talk, a_file(A)) == (
        ImpactKind.PARTITION_REMOVED,
        "",
        True,
        f"partition gpu is no longer in the file: that {ends}",
    )


def test_a_new_partition() -> None:
    assert the(running(a_file(A)), a_file(A), a_file(A, name="gpu"))[0] is ImpactKind.PARTITION_ADDED


def test_harmful_impacts_come_first() -> None:
    talk = running(a_file(A))
    found = impact(talk, a_file(QueueSpec("b"), rules=()), a_file(A, name="gpu"))
    assert [one.harms for one in found] == [True, False, False, False]
    assert found[0].queue == "root.a"


def test_placement_rules_in_words() -> None:
    talk = running(a_file(A))
    by_namespace = RuleSpec(
        RuleKind.TAG,
        create=True,
        value="namespace",
        parent=RuleSpec(RuleKind.FIXED, value="root.ns"),
        filter=FilterSpec(allow=False, users=("bob", "eve"), groups=("guests",)),
    )
    _, (kind, _, harms, message) = told(talk, a_file(A, rules=(by_namespace, RuleSpec(RuleKind.USER))))
    assert (kind, harms) == (ImpactKind.RULES_CHANGED, False)
    assert message == (
        "placement rules of partition default change from [provided, creating] to [tag namespace below (fixed root.ns) "
        "not for users 'bob,eve' or groups 'guests', creating; user]; applications that have a queue stay there"
    )


def test_applications_that_would_have_no_place() -> None:
    """Rules and ACLs of the new file are tried for applications that keep their queue."""
    talk = running(a_file(A, QueueSpec("b")))
    talk.apps(an_app("named", "root.b"), an_app("forced", "root.b", tags={"application.create.force": "true"}))
    found, _ = told(talk, a_file(A, QueueSpec("b"), rules=(RuleSpec(RuleKind.FIXED, value="root.c"),)))
    assert found[:3] == (ImpactKind.NO_PLACE, "", True)
    assert "3 applications could not be submitted again as before: forced, named, app; the first because" in found[3]
    assert "rule 1 (fixed): 'root.c' does not exist" in found[3]
    assert impact(talk, a_file(A, QueueSpec("b"), rules=(RuleSpec(RuleKind.PROVIDED),)))[1:] == []


def test_so_many_applications_are_placed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload_rules, "PLACED_AGAIN_MAX", 2)
    talk = running(a_file(A))
    talk.apps(*(an_app(f"app-{number}") for number in range(5)))
    found, _ = told(talk, a_file(A, rules=(RuleSpec(RuleKind.FIXED, value="root.c"),)))
    assert "2 applications could not be submitted again as before: app-4, app-3;" in found[3]


def test_no_rules_are_the_rule_that_holds_then() -> None:
    assert describe_rules(()) == describe_rules((RuleSpec(RuleKind.PROVIDED),)) == "provided"


def test_another_order_of_nodes() -> None:
    changed = a_file(A, node_order=NodeOrder.BINPACKING, node_weights={"memory": 2.5})
    assert the(running(a_file(A)), changed)[3] == (
        "nodes of partition default are ordered by binpacking {memory: 2.5} instead of fair {memory: 1, vcore: 1}; "
        "what is placed stays where it is"
    )


@pytest.mark.parametrize("users", [("somebody",), ("*",)])
def test_a_user_above_a_new_limit(users: tuple[str, ...]) -> None:
    limit = LimitSpec(users=users, max=Limits(memory=25, vcore=5))
    assert the(running(a_file(A)), a_file(replace(A, limits=(limit,)))) == (
        ImpactKind.OVER_LIMIT,
        "root.a",
        True,
        "user 'somebody' in root.a will be above a limit: memory 30 used, maxresources 25",
    )


def test_a_limit_that_holds_already_or_is_for_others_is_not_news() -> None:
    limit = LimitSpec(users=("somebody",), max=Limits(memory=40))
    talk = running(a_file(replace(A, limits=(limit,))))
    for_another = LimitSpec(users=("other",), max=Limits(memory=1))
    assert impact(talk, a_file(replace(A, limits=(limit, for_another)))) == []


def test_a_group_above_a_new_limit_of_applications() -> None:
    wide = LimitSpec(groups=("dev",), max_applications=9)
    talk = running(a_file(replace(A, limits=(wide,))))
    talk.apps(an_app("app-2", groups=("dev",)))
    talk.asks(an_ask("x", app="app-2"))
    talk.schedule()
    narrow = a_file(replace(A, limits=(replace(wide, max_applications=1),)))
    assert the(talk, narrow)[3] == (
        "group 'dev' in root.a will be above a limit: 2 applications run, maxapplications 1"
    )
