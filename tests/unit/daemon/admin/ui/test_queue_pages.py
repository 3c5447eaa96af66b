"""Queues on the page: what is said of them in words, folds of the tree, and long lists a part at a time."""

from __future__ import annotations

import re

from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import LimitSpec, WithinQueue
from schedulerd.daemon.admin.ui.pages.node import PODS_SHOWN
from schedulerd.daemon.admin.ui.pages.queue import LIMITS_SHOWN
from schedulerd.daemon.admin.ui.slices import page_of
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
)
from tests.unit.core.gang_builders import a_gang
from tests.unit.daemon.admin.ui.ui_world import UiWorld


def words(text: str) -> list[str]:
    """The words of the rows of a table of queues, the pattern of new rows left out."""
    return list(re.findall(r'<span data-f="words" class="state[^"]*">([^<]*)</span>', text))


def a_loan() -> Conversation:
    root = a_root(
        a_queue_spec("a", guaranteed={"memory": 20}),
        a_queue_spec("b", guaranteed={"memory": 50}),
        a_queue_spec("c", guaranteed={"memory": 10}),
    )
    talk = a_conversation(a_node("n1", {"memory": 100, "gpu": 2}), root=root)
    talk.apps(an_app("other", "root.c"))
    talk.asks(an_ask("k", resources=Resources(memory=30, gpu=2)), an_ask("k", 10, app="other"))
    talk.schedule()
    return talk


def test_a_queue_above_its_guarantee_says_which_sibling_lends() -> None:
    world = UiWorld(a_loan())
    assert words(world.page("/ui/queues"))[:4] == [
        "full (gpu)",
        "full (gpu), above its guarantee, lent by b",
        "",
        "",
    ]
    text = world.page("/ui/queue?path=root.a")
    assert "above its guarantee, lent by b" in text
    assert '<span data-f="words">full</span>' in text  # the devices


def a_tree() -> Conversation:
    deep = a_queue_spec("deep", a_queue_spec("leaf"))
    return a_conversation(root=a_root(a_queue_spec("a"), a_queue_spec("x", deep)))


def names(text: str) -> list[str]:
    return re.findall(r'<a data-f="name" href="/ui/queue[^"]*">([^<]+)</a>', text)


def folds(text: str) -> dict[str, str]:
    """What the fold of each queue says, and where it leads."""
    found = re.findall(
        r'href="([^"]*)"><span data-f="mark"[^>]*>[^<]+</span><span data-f="folds"[^>]*>([^<]+)</span>', text
    )
    return {said: href.replace("&amp;", "&") for href, said in found}


def test_queues_are_folded_by_links() -> None:
    world = UiWorld(a_tree())
    text = world.page("/ui/queues")
    assert names(text) == ["root", "a", "x", "deep", "leaf"]
    folded = world.page(folds(text)["Fold x"])
    assert names(folded) == ["root", "a", "x"]
    assert folds(folded)["Unfold x"] == "/ui/queues"
    both = world.page(folds(folded)["Fold root"])
    assert names(both) == ["root"]
    assert names(world.page(folds(both)["Unfold root"])) == ["root", "a", "x"]
    assert names(world.page(folds(world.page("/ui/"))["Fold x"])) == ["root", "a", "x"]
    long = world.page("/ui/queues?fold=" + "y" * 900)
    assert folds(long)["Open x"] == "/ui/queues?under=root.x"


def test_every_part_of_a_long_list_can_be_reached() -> None:
    limits = tuple(LimitSpec(users=(f"user-{number}",), groups=(), max=Limits({"memory": 10})) for number in range(30))
    talk = a_conversation(a_node("n1", {"memory": 1_000}), root=a_root(a_queue_spec("a", limits=limits)))
    talk.asks(*(an_ask(f"k{number}", 1) for number in range(PODS_SHOWN + 5)))
    talk.schedule()
    world = UiWorld(talk)
    text = world.page("/ui/queue?path=root.a")
    assert f"1 to {LIMITS_SHOWN} of 30 shown" in text
    assert 'href="/ui/applications?queue=root.a&amp;user=user-3"' in text
    assert ">user-29<" not in text
    assert ">user-29<" in world.page(f"/ui/queue?path=root.a&limits={LIMITS_SHOWN}")
    text = world.page("/ui/node?id=n1")
    assert f"1 to {PODS_SHOWN} of {PODS_SHOWN + 5} shown" in text
    assert f'href="/ui/node?id=n1&amp;from={PODS_SHOWN}" rel="next"' in text
    assert 'href="/ui/ask?application=app&amp;ask=k3"' in text
    last = world.page(f"/ui/node?id=n1&from={PODS_SHOWN}")
    assert f'href="/ui/ask?application=app&amp;ask=k{PODS_SHOWN + 4}"' in last
    assert 'rel="prev"' in last
    text = world.page("/ui/application?id=app")
    assert "1 to 30 of 65 shown" in text
    assert 'href="/ui/application?id=app&amp;from=30" rel="next"' in text
    assert "<details open>" in world.page("/ui/application?id=app&from=30")


def test_what_is_ahead_is_counted_if_it_is_not_named() -> None:
    talk = a_conversation(a_node("n1", {"memory": 1}), root=a_root(a_queue_spec("a")))
    talk.apps(*(an_app(f"app-{number}", "root.a") for number in range(9)))
    talk.asks(*(an_ask("k", 5, app=f"app-{number}") for number in range(9)))
    talk.schedule()
    world = UiWorld(talk)
    for path in ("/ui/application?id=app-8", "/ui/ask?application=app-8&ask=k"):
        text = world.page(path)
        assert '<p class="more" data-t="ahead_left_out">and 3 more</p>' in text
        assert ">app-4</a>" in text


def test_a_gang_says_how_many_members_have_no_cell() -> None:
    talk = a_conversation(a_node("n1", {"memory": 1}))
    talk.apps(a_gang(memory=2_300))
    talk.asks(*(a_placeholder(f"p{number}", 10, count=1, app="gang") for number in range(230)))
    assert "and 30 members without a cell" in UiWorld(talk).page("/ui/application?id=gang")


def test_a_part_of_a_list() -> None:
    part = page_of("20", 25, 10)
    assert part.said == "21 to 25 of 25 shown"
    assert part.links(str) == {"previous": "10", "next": ""}
    assert page_of("", 5, 10).said == ""
    assert page_of("-1", 25, 10).links(str) == {"previous": "", "next": "10"}


def test_what_uses_a_queue_is_a_link() -> None:
    text = UiWorld(a_loan()).page("/ui/queue?path=root")
    assert '<a data-f="u0" class="" href="/ui/queue?path=root.a">root.a 30</a>' in text
    leaf = UiWorld(a_loan()).page("/ui/queue?path=root.a")
    assert '<a data-f="u0" class="" href="/ui/application?id=app">app 30</a>' in leaf


def test_waiting_asks_that_would_fit_a_node_are_not_among_those_that_cannot_use_it() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}), root=a_root(a_queue_spec("a", max={"memory": 10})))
    talk.asks(an_ask("small", 20), an_ask("large", 101))
    talk.schedule()
    text = UiWorld(talk).page("/ui/node?id=n1")
    assert "1 waiting allocation would fit here: other things are awaited." in text
    assert ">Not enough memory<" in text
    assert "would fit here, and" not in text
    assert ">Attributes<" not in text


def test_of_full_queues_the_lowest_are_told() -> None:
    leaf = a_queue_spec("leaf", max={"gpu": 2})
    talk = a_conversation(
        a_node("n1", {"gpu": 2, "memory": 10}), root=a_root(a_queue_spec("up", leaf), a_queue_spec("b"))
    )
    talk.apps(an_app("one", "root.up.leaf"), an_app("two", "root.b"))
    talk.asks(an_ask("k", resources=Resources(gpu=1), count=3, app="one"), an_ask("k", 10, count=2, app="two"))
    talk.schedule()
    text = UiWorld(talk).page("/ui/")
    assert "Queue root.up.leaf is full (gpu): 1 waiting<" in text
    assert "Queue root.b is full (memory): 1 waiting<" in text
    assert text.count(" is full (") == 2


def test_a_leaf_says_whether_priority_preempts_inside_it() -> None:
    root = a_root(
        a_queue_spec("a", preemption_within_queue=WithinQueue.PRIORITY),
        a_queue_spec("b"),
        a_queue_spec("p", a_queue_spec("x")),
    )
    world = UiWorld(a_conversation(root=root))
    for path, said in (("root.a", "priority"), ("root.b", "off"), ("root.p", None)):
        text = world.page(f"/ui/queue?path={path}")
        found = re.search(r"<small>preemption within the queue</small> ([^<]*)<", text)
        assert (found[1] if found else None) == said
