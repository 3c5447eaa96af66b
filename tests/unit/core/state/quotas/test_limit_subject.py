"""Which of a user's groups counts: the order of the limits decides, not that of the user's groups (SEMANTICS I21)."""

from __future__ import annotations

from schedulerd.core.language.specs import LimitSpec
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.quotas.limit_subject import group_of
from tests.loops import each_row
from tests.unit.core.builders import a_conversation, a_node, a_queue_spec, a_root, an_app, an_ask
from tests.unit.core.configurations import reload

Lists = tuple[tuple[str, ...], ...]
"""The groups of each limit of a queue."""


def limits(lists: Lists) -> tuple[LimitSpec, ...]:
    return tuple(LimitSpec(groups=groups, max_applications=1) for groups in lists)


def counts(groups: tuple[str, ...], *, leaf: Lists = (), root: Lists = ()) -> str:
    tree = Queue.from_spec(a_queue_spec("root", a_queue_spec("a", limits=limits(leaf)), limits=limits(root)))
    return group_of([one.limits for one in tree.children["a"].path_to_root], groups)


@each_row("groups", [("dev", "ops"), ("ops", "dev"), ("guests", "ops", "dev")])
@each_row("leaf", [(("ops",), ("dev",)), (("ops", "dev"),), (("qa",), ("ops", "x"), ("dev",))])
def test_the_group_whose_limit_stands_first_counts(groups: tuple[str, ...], leaf: Lists) -> None:
    assert counts(groups, leaf=leaf) == "ops"
    assert counts(groups, root=leaf) == "ops"


def test_the_lowest_queue_with_a_limit_for_any_of_them_decides() -> None:
    assert counts(("ops", "dev"), leaf=(("dev",),), root=(("ops",), ("dev",))) == "dev"
    assert counts(("ops", "dev"), leaf=(("qa",),), root=(("dev",), ("ops",))) == "dev"


def test_the_wildcard_is_for_a_user_none_of_whose_groups_is_named_on_any_level() -> None:
    leaf, root = (("qa",), ("*",)), (("ops",),)
    assert counts(("dev", "ops"), leaf=leaf, root=root) == "ops"
    assert counts(("dev",), leaf=leaf, root=root) == "*"
    assert counts(("*",), leaf=leaf, root=root) == "*"
    assert counts((), leaf=leaf) == "*"
    assert counts(("dev",), root=root) == ""


def test_another_order_is_for_new_applications_and_the_ledgers_of_others_stay_exact() -> None:
    """`a_conversation` counts all ledgers anew after every step."""
    ops_first, dev_first = limits((("ops",), ("dev",))), limits((("dev",), ("ops",)))
    talk = a_conversation(a_node("n1", {"memory": 100}), root=a_root(a_queue_spec("a", limits=ops_first)))
    talk.apps(an_app("old", groups=("dev", "ops")))
    talk.asks(an_ask("k", 10, app="old"))
    talk.schedule()
    reload(talk, a_root(a_queue_spec("a", limits=dev_first)))
    talk.apps(an_app("new", groups=("dev", "ops")))
    talk.asks(an_ask("k", 20, app="new"), an_ask("more", 30, app="old"))
    talk.schedule()
    assert [talk.app(name).group for name in ("old", "new")] == ["ops", "dev"]
    used = {one.user: one.usage["root.a"] for one in talk.view().groups}
    assert used == {"ops": {"memory": 40}, "dev": {"memory": 20}}
    talk.remove("old")
    assert [one.user for one in talk.view().groups] == ["dev"]
