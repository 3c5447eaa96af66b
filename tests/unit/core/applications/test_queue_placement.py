"""The queue an application goes to: the placement rules in order, what each says, and the recovery queue."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.config import matches
from schedulerd.config.models import QUEUE_NAME
from schedulerd.core.applications.rules.queue_placement import (
    FORCE_CREATE_TAG,
    LEAVES_LOOKED_FOR_AMONG,
    NAMES_LENGTH_MAX,
    RECOVERY_QUEUE,
    Placement,
    place_application,
)
from schedulerd.core.language import checks
from schedulerd.core.language.checks import Mistake
from schedulerd.core.language.facts.fact import RejectCode
from schedulerd.core.language.specs import Acl, FilterSpec, RuleKind, RuleSpec
from schedulerd.core.state.model.queue import Queue
from tests.unit.core.builders import EVERYBODY, a_queue_spec, an_app

K = RuleKind
ANN = Acl(users=frozenset({"ann"}))
STAFF = Acl(groups=frozenset({"staff"}))
PROVIDED = RuleSpec(K.PROVIDED)
CREATE = RuleSpec(K.PROVIDED, create=True)
USER = RuleSpec(K.USER, create=True)
BELOW_A = RuleSpec(K.FIXED, value="root.team.a")
BELOW_TEAM = RuleSpec(K.FIXED, value="root.team")


@pytest.fixture
def root() -> Queue:
    """root.open for everybody; root.team with leaves for ann, and one of them for the staff too."""
    team = a_queue_spec("team", a_queue_spec("a"), a_queue_spec("b", submit_acl=STAFF), submit_acl=ANN)
    return Queue.from_spec(a_queue_spec("root", a_queue_spec("open", submit_acl=EVERYBODY), team))


def place(root: Queue, queue: str, *rules: RuleSpec, **fields: Any) -> str | Mistake:
    """Path of the leaf, what is to be created in brackets; or why there is none."""
    fields.setdefault("user", "ann")
    found = place_application(root, rules, an_app("app", queue, **fields), matches)
    if not isinstance(found, Placement):
        return found
    return found.queue.path + "".join(f"[{name}]" for name in found.create)


def refusal(root: Queue, queue: str, *rules: RuleSpec, **fields: Any) -> Mistake:
    found = place(root, queue, *rules, **fields)
    assert isinstance(found, Mistake)
    return found


# What is said of a queue that is named, and not used


def unused(root: Queue, queue: str, *rules: RuleSpec, **fields: Any) -> str:
    found = place_application(root, rules, an_app("app", queue, user="ann", **fields), matches)
    assert isinstance(found, Placement)
    return found.unused


def test_a_queue_that_no_rule_takes_is_told_though_a_later_rule_takes_the_application(root: Queue) -> None:
    assert unused(root, "root.typo", PROVIDED, BELOW_A) == (
        "queueName 'root.typo' is not used: rule 1 (provided): 'root.typo' does not exist, and the rule creates none; "
        "rule 2 (fixed) takes the application"
    )
    assert unused(root, "open", BELOW_A) == "queueName 'open' is not used; rule 1 (fixed) takes the application"
    forced = unused(root, "root.typo", PROVIDED, tags={FORCE_CREATE_TAG: "true"})
    assert forced.startswith("queue root.typo does not exist; ")


def test_nothing_is_said_of_a_queue_that_is_used_or_not_named(root: Queue) -> None:
    assert unused(root, "root.open", PROVIDED, BELOW_A) == unused(root, "", PROVIDED, BELOW_A) == ""
    assert unused(root, "ROOT.Team.A", BELOW_A) == unused(root, "team.a", BELOW_A) == ""


# Without rules: the queue that the application names


@pytest.mark.parametrize("named", ["root.open", "open", "root.Open", "ROOT.OPEN", "Root.open", "OPEN"])
def test_a_leaf_may_be_named_with_and_without_root(root: Queue, named: str) -> None:
    assert place(root, named) == "root.open"


@pytest.mark.parametrize(
    ("queue", "user", "groups", "allowed"),
    [
        ("root.open", "eve", (), True),
        ("root.team.a", "ann", (), True),
        ("root.team.a", "eve", ("staff",), False),
        ("root.team.b", "eve", ("dev", "staff"), True),
        ("root.team.b", "ann", (), True),
        ("root.team.b", "eve", ("ann",), False),
    ],
)
def test_any_grant_on_the_way_up_lets_in(
    root: Queue, queue: str, user: str, groups: tuple[str, ...], allowed: bool
) -> None:
    if allowed:
        assert place(root, queue, user=user, groups=groups) == queue
    else:
        mistake = refusal(root, queue, user=user, groups=groups)
        assert mistake.code is RejectCode.ACCESS_DENIED
        assert f"user {user!r} with groups {list(groups)} may not submit to {queue}" in mistake.reason


def test_a_refusal_is_short_whatever_the_user_and_the_rules_are(root: Queue) -> None:
    """It goes back as one item, and a client that does not take it would never get anything else either."""
    groups = tuple("\N{MUSICAL SYMBOL G CLEF}" * checks.ID_LENGTH_MAX for _ in range(checks.GROUPS_MAX))
    mistake = refusal(root, "root.team.a", *(BELOW_A,) * 1000, user="eve", groups=groups)
    assert mistake.code is RejectCode.ACCESS_DENIED
    assert mistake.reason.count("may not submit to root.team.a") == checks.LISTED_MAX
    assert mistake.reason.count(f"({checks.ID_LENGTH_MAX} characters)") == checks.LISTED_MAX**2
    assert mistake.reason.endswith(" and 990 more")
    assert len(mistake.reason) < 16_000


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("", "no queue is named; set one, such as root.open"),
        ("root.gone", "queue root.gone does not exist"),
        (
            "root.gone",
            "does not exist; leaf queues are root.open, root.team.a, root.team.b",
        ),
        ("root.open.below", "queue root.open.below does not exist"),
        ("root.team", "root.team is a parent queue; applications go to leaf queues: root.team.a, root.team.b"),
        (f"root.{RECOVERY_QUEUE}", "does not exist"),
        ("ROOT.Gone", "queue ROOT.Gone does not exist"),
        ("ROOT.Open.Below", "queue ROOT.Open.Below does not exist"),
        ("Gone", "queue root.Gone does not exist"),
    ],
)
def test_what_is_no_leaf_is_refused_with_the_reason(root: Queue, named: str, said: str) -> None:
    mistake = refusal(root, named)
    assert mistake.code is RejectCode.NOT_PLACED
    assert said in mistake.reason


def test_an_application_belongs_to_a_user(root: Queue) -> None:
    mistake = refusal(root, "root.open", user="")
    assert (mistake.code, mistake.reason) == (
        RejectCode.EMPTY_ID,
        "ugi.user is empty; an application belongs to a user",
    )


def test_many_leaves_are_not_all_listed() -> None:
    """Nor looked at, so that a refusal costs the same with any number of queues."""
    leaves = (a_queue_spec(f"q{number:03}") for number in range(2 * LEAVES_LOOKED_FOR_AMONG))
    root = Queue.from_spec(a_queue_spec("root", a_queue_spec("p", *leaves)))
    mistake = refusal(root, "root.p")
    assert mistake.reason.endswith("root.p.q009 and more")
    for leaf in root.children["p"].children.values():
        leaf.draining = leaf.name != f"q{LEAVES_LOOKED_FOR_AMONG - 3:03}"
    mistake = refusal(root, "root")
    assert mistake.reason.endswith(f": root.p.q{LEAVES_LOOKED_FOR_AMONG - 3:03}")
    root.children["p"].children[f"q{LEAVES_LOOKED_FOR_AMONG - 3:03}"].draining = True
    assert refusal(root, "root").reason.endswith(": none")
    assert "root.p.q10" not in mistake.reason


def test_a_draining_queue_takes_nothing_new(root: Queue) -> None:
    root.children["open"].set_draining(True)
    assert "root.open is draining" in refusal(root, "root.open").reason


# Rules


@pytest.mark.parametrize(
    ("rule", "fields", "expected"),
    [
        (CREATE, {}, "root[new]"),
        (CREATE, {"queue": "root.team.new"}, "root.team[new]"),
        (CREATE, {"queue": "root.New.Deep"}, "root[New][Deep]"),
        (CREATE, {"queue": "ROOT.TEAM.New"}, "root.team[New]"),
        (RuleSpec(K.TAG, value="q"), {"tags": {"q": "ROOT.Team.B"}}, "root.team.b"),
        (RuleSpec(K.FIXED, value="ROOT.Open"), {}, "root.open"),
        (RuleSpec(K.FIXED, value="Open"), {}, "root.open"),
        (RuleSpec(K.PROVIDED, parent=RuleSpec(K.FIXED, value="Root.TEAM")), {"queue": "A"}, "root.team.a"),
        (CREATE, {"queue": "x.a"}, "root[x_dot_a]"),
        (RuleSpec(K.PROVIDED, create=True, parent=BELOW_TEAM), {"queue": "c"}, "root.team[c]"),
        (RuleSpec(K.PROVIDED, parent=BELOW_TEAM), {"queue": "a"}, "root.team.a"),
        (RuleSpec(K.PROVIDED, parent=BELOW_TEAM), {"queue": "root.open"}, "root.open"),
        (USER, {}, "root[ann]"),
        (RuleSpec(K.USER, create=True, parent=BELOW_TEAM), {}, "root.team[ann]"),
        (RuleSpec(K.TAG, create=True, value="namespace"), {"tags": {"Namespace": "Prod"}}, "root[Prod]"),
        (RuleSpec(K.TAG, value="q"), {"tags": {"q": "root.team.b"}}, "root.team.b"),
        (RuleSpec(K.FIXED, value="root.open"), {}, "root.open"),
        (RuleSpec(K.FIXED, value="open"), {}, "root.open"),
        (RuleSpec(K.FIXED, value="deep.er", create=True), {}, "root[deep][er]"),
        (RuleSpec(K.PROVIDED, create=True, parent=USER), {"queue": "jobs"}, "root[ann][jobs]"),
    ],
)
def test_a_rule_names_a_queue(root: Queue, rule: RuleSpec, fields: dict[str, Any], expected: str) -> None:
    root.submit_acl = EVERYBODY
    named = {"queue": "new", **fields}
    assert place(root, named.pop("queue"), rule, **named) == expected


def test_the_lowest_queue_that_exists_decides_which_users_may_create(root: Queue) -> None:
    assert place(root, "root.team.new.leaf", CREATE, user="ann") == "root.team[new][leaf]"
    for named in ("root.new", "root.team.new"):
        assert refusal(root, named, CREATE, user="eve").code is RejectCode.ACCESS_DENIED


def test_a_user_with_a_dot_gets_a_queue_without() -> None:
    root = Queue.from_spec(a_queue_spec("root", a_queue_spec("a"), submit_acl=EVERYBODY))
    assert place(root, "", USER, user="j.doe") == "root[j_dot_doe]"


@pytest.mark.parametrize(
    ("user", "leaf"),
    [
        ("ann@corp.com", "ann@corp_dot_com"),
        ("system:serviceaccount:a:b", "system:serviceaccount:a:b"),
        ("a/b#c", "a/b#c"),
    ],
)
def test_a_created_queue_has_any_name_that_a_queue_of_the_file_may_have(user: str, leaf: str) -> None:
    root = Queue.from_spec(a_queue_spec("root", a_queue_spec("a"), submit_acl=EVERYBODY))
    assert place(root, "", USER, user=user) == f"root[{leaf}]"
    assert QUEUE_NAME.fullmatch(leaf)


# root.default


@pytest.fixture
def with_default() -> Queue:
    closed = a_queue_spec("closed", submit_acl=Acl(users=frozenset({"bob"})))
    default = a_queue_spec("Default", submit_acl=Acl(users=frozenset({"ann"})))
    return Queue.from_spec(a_queue_spec("root", default, closed, a_queue_spec("team", a_queue_spec("a"))))


NO_MATCH = (RuleSpec(K.TAG, value="namespace"), RuleSpec(K.USER))


@pytest.mark.parametrize("rules", [(), (PROVIDED,), NO_MATCH])
def test_an_application_that_names_no_queue_and_that_no_rule_takes_goes_to_root_default(
    with_default: Queue, rules: tuple[RuleSpec, ...]
) -> None:
    assert place(with_default, "", *rules) == place(with_default, " ", *rules) == "root.default"


@pytest.mark.parametrize("rules", [(PROVIDED,), NO_MATCH])
def test_a_queue_that_is_named_and_not_taken_is_told(with_default: Queue, rules: tuple[RuleSpec, ...]) -> None:
    """A typo would be hidden."""
    assert "root.defualt" in refusal(with_default, "root.defualt", *rules).reason


def test_the_acl_of_root_default_counts(with_default: Queue) -> None:
    mistake = refusal(with_default, "", user="eve")
    assert mistake.code is RejectCode.NOT_PLACED
    assert "no queue is named; root.default: user 'eve' with groups [] may not submit to root.Default" in mistake.reason


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (RuleSpec(K.FIXED, value="root.closed"), RejectCode.ACCESS_DENIED),
        (RuleSpec(K.USER, create=True, parent=RuleSpec(K.FIXED, value="root.closed")), RejectCode.NOT_PLACED),
    ],
)
def test_what_an_acl_or_a_leaf_as_parent_refused_does_not_go_to_root_default(
    with_default: Queue, rule: RuleSpec, code: RejectCode
) -> None:
    assert refusal(with_default, "", rule).code is code


def test_root_default_takes_nothing_while_it_is_closed_or_a_parent(with_default: Queue) -> None:
    with_default.children["default"].stopped = True
    assert "root.default: root.Default is stopped by an operator" in refusal(with_default, "").reason
    below = Queue.from_spec(a_queue_spec("root", a_queue_spec("default", a_queue_spec("a")), submit_acl=EVERYBODY))
    assert "root.default: root.default is a parent queue" in refusal(below, "").reason


def test_an_application_that_runs_already_goes_back_to_root_default(with_default: Queue) -> None:
    forced = {FORCE_CREATE_TAG: "true"}
    assert place(with_default, "", tags=forced) == "root.default"
    assert place(with_default, "", user="eve", tags=forced) == f"root[{RECOVERY_QUEUE}]"


@pytest.mark.parametrize(
    ("rule", "fields", "said"),
    [
        (RuleSpec(K.TAG, value="namespace"), {}, "rule 1 (tag): the application has no tag 'namespace'"),
        (RuleSpec(K.TAG, value="namespace"), {"tags": {"namespace": ""}}, "has no tag 'namespace'"),
        (RuleSpec(K.USER), {}, "rule 1 (user): 'root.ann' does not exist, and the rule creates none"),
        (RuleSpec(K.FIXED, value="root.gone"), {}, "rule 1 (fixed): 'root.gone' does not exist"),
        (
            RuleSpec(K.USER, create=True, parent=RuleSpec(K.TAG, value="t")),
            {},
            "its parent rule (tag): the application has no tag 't'",
        ),
        (RuleSpec(K.PROVIDED, filter=FilterSpec(users=("bob",))), {}, "its filter excludes user 'ann'"),
        (RuleSpec(K.RECOVERY), {}, "only for applications that have to be taken"),
    ],
)
def test_when_a_rule_does_not_match_the_next_is_tried(
    root: Queue, rule: RuleSpec, fields: dict[str, Any], said: str
) -> None:
    mistake = refusal(root, "root.open", rule, **fields)
    assert mistake.code is RejectCode.NOT_PLACED
    assert said in mistake.reason
    assert place(root, "root.open", rule, PROVIDED, **fields) == "root.open"


def test_a_user_that_may_not_submit_by_one_rule_may_by_the_next(root: Queue) -> None:
    rules = (PROVIDED, RuleSpec(K.FIXED, value="root.open"))
    assert place(root, "root.team.a", *rules, user="eve") == "root.open"
    mistake = refusal(root, "root.team.a", PROVIDED, RuleSpec(K.TAG, value="t"), user="eve")
    assert mistake.code is RejectCode.ACCESS_DENIED
    assert "rule 1 (provided): user 'eve'" in mistake.reason
    assert "rule 2 (tag): the application has no tag 't'" in mistake.reason


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("root.open.below", "queue 'root.open.below' cannot be created: root.open is a leaf"),
        ("Root.Open.Below", "queue 'Root.Open.Below' cannot be created: root.open is a leaf"),
        ("root.Bad Name", "queue 'Bad Name' cannot be created below root: a queue name is 1 to 64 letters"),
        ("a!b", "queue 'a!b' cannot be created"),
        ("root.\N{KELVIN SIGN}elvin", "queue '\N{KELVIN SIGN}elvin' cannot be created"),
        ("root." + "x" * 65, "cannot be created below root"),
        ("root.", "queue '' cannot be created below root"),
    ],
)
def test_a_name_no_queue_can_have_ends_the_search(root: Queue, named: str, said: str) -> None:
    mistake = refusal(root, named, CREATE, RuleSpec(K.FIXED, value="root.open"))
    assert mistake.code is RejectCode.NOT_PLACED
    assert said in mistake.reason


@pytest.mark.parametrize(
    ("rule", "queue"),
    [
        (RuleSpec(K.USER, create=True, parent=RuleSpec(K.FIXED, value="Root.Open")), "root.open"),
        (RuleSpec(K.PROVIDED, parent=RuleSpec(K.TAG, value="t")), "a"),
    ],
)
def test_a_parent_rule_that_gives_a_leaf_ends_the_search(root: Queue, rule: RuleSpec, queue: str) -> None:
    mistake = refusal(root, queue, rule, PROVIDED, RuleSpec(K.FIXED, value="root.open"), tags={"t": "Root.Open"})
    assert mistake.code is RejectCode.NOT_PLACED
    assert rule.parent is not None
    assert mistake.reason == (
        f"queueName {queue!r}: rule 1 ({rule.kind}): its parent rule ({rule.parent.kind}) names 'Root.Open', which is "
        "a leaf; no queue can be below it, and no later rule is tried"
    )


def test_what_ends_the_search_for_a_parent_ends_it_for_the_rule(root: Queue) -> None:
    above = RuleSpec(K.TAG, value="t", create=True, parent=RuleSpec(K.FIXED, value="root.open"))
    mistake = refusal(root, "", RuleSpec(K.USER, create=True, parent=above), PROVIDED, tags={"t": "below"})
    assert "rule 1 (user): its parent rule (tag): its parent rule (fixed) names 'root.open', which is" in mistake.reason


def test_a_whole_path_needs_no_parent_so_a_leaf_there_rejects_nothing(root: Queue) -> None:
    below_a_leaf = RuleSpec(K.PROVIDED, parent=RuleSpec(K.FIXED, value="root.open"))
    assert place(root, "root.team.a", below_a_leaf) == "root.team.a"


def test_an_application_that_has_to_be_taken_is_taken_although_a_parent_rule_gives_a_leaf(root: Queue) -> None:
    rule = RuleSpec(K.USER, create=True, parent=RuleSpec(K.FIXED, value="root.open"))
    assert place(root, "", rule, tags={FORCE_CREATE_TAG: "true"}) == f"root[{RECOVERY_QUEUE}]"


def test_messages_name_a_queue_as_the_file_writes_it() -> None:
    root = Queue.from_spec(a_queue_spec("root", a_queue_spec("Team", a_queue_spec("Leaf")), submit_acl=ANN))
    assert [queue.path for queue in root.subtree()] == ["root", "root.team", "root.team.leaf"]
    assert "root.Team is a parent queue; applications go to leaf queues: root.Team.Leaf" in refusal(root, "TEAM").reason
    assert "may not submit to root.Team.Leaf" in refusal(root, "root.team.leaf", user="eve").reason
    root.children["team"].configure(a_queue_spec("TEAM", a_queue_spec("Leaf")))
    assert "root.TEAM is a parent queue" in refusal(root, "team").reason


def test_a_created_queue_is_the_same_however_it_is_written() -> None:
    root = Queue.from_spec(a_queue_spec("root", a_queue_spec("a"), submit_acl=EVERYBODY))
    created = root.create("New", is_leaf=True)
    assert (created.name, created.path, created.written) == ("new", "root.new", "root.New")
    for named in ("root.NEW", "new", "ROOT.New"):
        assert place(root, named, CREATE) == "root.new"


@pytest.mark.parametrize(
    ("filter_", "passes"),
    [
        (FilterSpec(), True),
        (FilterSpec(users=("ann",)), True),
        (FilterSpec(users=("bob",)), False),
        (FilterSpec(users=("bob",), groups=("dev",)), True),
        (FilterSpec(allow=False, users=("ann",)), False),
        (FilterSpec(allow=False, users=("bob",)), True),
        (FilterSpec(allow=False, groups=("dev",)), False),
        (FilterSpec(users=("^a.*",), is_user_pattern=True), True),
        (FilterSpec(groups=("^x",), is_group_pattern=True), False),
        (FilterSpec(users=("nn",), is_user_pattern=True), True),
        (FilterSpec(users=("^n",), is_user_pattern=True), False),
        (FilterSpec(users=("bob",), groups=("^d.v$",), is_group_pattern=True), True),
        (FilterSpec(users=("^b",), is_user_pattern=True, groups=("dev",)), True),
        (FilterSpec(allow=False, users=("^[[:lower:]]+$",), is_user_pattern=True), False),
    ],
)
def test_a_filter_says_for_which_users_a_rule_is(root: Queue, filter_: FilterSpec, passes: bool) -> None:
    found = place(root, "root.open", RuleSpec(K.PROVIDED, filter=filter_), groups=("dev",))
    assert (found == "root.open") is passes


def test_so_many_characters_of_names_are_matched_with_regular_expressions(root: Queue) -> None:
    pattern = RuleSpec(
        RuleKind.PROVIDED, parent=RuleSpec(RuleKind.FIXED, value="root", filter=FilterSpec(True, ("^u",), (), True))
    )
    groups = ("g" * (NAMES_LENGTH_MAX // 4),) * 4
    all_but_one = (*groups[1:], groups[0][2:])
    assert place(root, "root.open", pattern, user="u", groups=all_but_one) == "root.open"
    found = refusal(root, "root.open", pattern, user="u", groups=groups)
    assert found.code is RejectCode.INVALID_FIELD
    assert found.reason == (
        "ugi: the names of the user and the 4 groups have 4097 characters together; at most 4096 are allowed where "
        "placement rules have regular expressions"
    )
    assert place(root, "root.open", RuleSpec(RuleKind.PROVIDED), user="u", groups=groups) == "root.open"


# Applications that run already


def test_one_that_has_to_be_taken_goes_to_the_recovery_queue_only_if_nothing_else_is_right(root: Queue) -> None:
    forced = {"tags": {FORCE_CREATE_TAG: "TRUE"}, "user": "eve"}
    assert place(root, "root.open", **forced) == "root.open"
    for named in ("", "gone", "root.team.a"):
        assert place(root, named, **forced) == f"root[{RECOVERY_QUEUE}]"
    recovery = root.create(RECOVERY_QUEUE, is_leaf=True)
    assert place(root, "gone", **forced) == recovery.path
    assert "cannot be named" in refusal(root, recovery.path).reason


@pytest.mark.parametrize("value", ["", "false", "yes"])
def test_any_other_value_of_the_tag_forces_nothing(root: Queue, value: str) -> None:
    assert refusal(root, "gone", tags={FORCE_CREATE_TAG: value}).code is RejectCode.NOT_PLACED
