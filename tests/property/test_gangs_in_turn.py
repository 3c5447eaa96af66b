"""Gangs of which each fits into all quotas and limits, but not all together: each runs, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from hypothesis import event, example, given
from hypothesis import strategies as st

from schedulerd.core.language.commands import UpdateConfiguration
from schedulerd.core.language.facts.fact import ApplicationChanged, Fact, ReleaseRequested
from schedulerd.core.language.facts.gangs import GangCompleted, GangGaveWay
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import SECOND_NS, LimitSpec, QueueSpec
from tests.unit.core.builders import (
    EVERYBODY,
    Conversation,
    a_conversation,
    a_node,
    a_partition_spec,
    a_placeholder,
    a_queue_spec,
    an_app,
    of,
)

LEAVES = ("root.p.a", "root.p.b", "root.c")
USERS = ("ann", "ann", "bob")
GROUPS: tuple[tuple[str, ...], ...] = ((), ("dev",), ("ops", "dev"))
WHOLE = 60
"""Memory of the largest gang. No quota or limit is below, so each gang fits alone."""
RUNS_NS = 3 * SECOND_NS
LONG_NS = 14 * 60 * SECOND_NS
"""Enough for all of them, and less than the time of a gang."""


@dataclass(frozen=True)
class GangPlan:
    queue: str
    user: str
    groups: tuple[str, ...]
    members: int
    memory: int
    style: str
    as_one: bool
    """One ask for all placeholders, instead of one for each."""


gangs = st.builds(
    GangPlan,
    st.sampled_from(LEAVES),
    st.sampled_from(USERS),
    st.sampled_from(GROUPS),
    st.sampled_from((6, 5, 4, 3)),
    st.sampled_from((10, 5)),
    st.sampled_from(("Hard", "Soft")),
    st.booleans(),
)
most = st.sampled_from((None, WHOLE, WHOLE + 10, WHOLE + 20, WHOLE + 40))
counts = st.sampled_from((0, 0, 0, 1, 2))
accounts = st.sampled_from(((("ann",), ()), (("*",), ()), ((), ("dev",)), ((), ("*",)), (("ann", "bob"), ("ops", "*"))))
limits = st.builds(
    lambda account, amount, count: LimitSpec(
        account[0], account[1], None if amount is None else Limits(memory=amount), count
    ),
    accounts,
    most,
    counts,
)


Levels: TypeAlias = dict[str, tuple[int | None, int, tuple[LimitSpec, ...]]]
"""For each queue: its max, maxapplications and limits."""


@st.composite
def levels(draw: st.DrawFn) -> Levels:
    return {
        path: (
            None if path == "root" else draw(most),
            draw(counts),
            tuple(draw(st.lists(limits, min_size=path == "root", max_size=2))),
        )
        for path in ("root", "p", "a", "b", "c")
    }


def tree(of_level: Levels) -> QueueSpec:
    def queue(name: str, *children: QueueSpec) -> QueueSpec:
        amount, count, limits = of_level[name]
        return a_queue_spec(
            name,
            *children,
            max=None if amount is None else {"memory": amount},
            max_applications=count,
            limits=limits,
            submit_acl=EVERYBODY,
        )

    return queue("root", queue("p", queue("a"), queue("b")), queue("c"))


UNLIMITED: Levels = dict.fromkeys(("root", "p", "a", "b", "c"), (None, 0, ()))
WIDE = tree(UNLIMITED | {"root": (None, 0, (LimitSpec((), ("dev", "ops", "*")),))})
"""Limits nothing, and names the groups, which are determined at submission."""
moves = st.lists(
    st.tuples(st.sampled_from(("reload", "widen", "node")), st.just(0))
    | st.tuples(st.just("cycle"), st.integers(1, 9))
    | st.tuples(st.just("sleep"), st.integers(1, 40)),
    max_size=8,
)


class Turns:
    """Gangs that are sent together, and a resource manager that ends each a while after it was complete."""

    def __init__(self, plans: list[GangPlan], root: QueueSpec) -> None:
        self.plans = plans
        self.root = root
        self.talk: Conversation = a_conversation(root=WIDE)
        self.ran: dict[str, None] = {}
        self.gave_way = 0
        self.nodes = 0

    def hear(self, facts: list[Fact]) -> None:
        """Releases that the scheduler asks for are confirmed at once; no gang ends without having been complete."""
        self.gave_way += len(of(GangGaveWay, facts))
        for one in of(ApplicationChanged, facts):
            assert one.state not in (ApplicationState.FAILING, ApplicationState.RESUMING), one
        for done in of(GangCompleted, facts):
            self.ran[done.application_id] = None
        for request in of(ReleaseRequested, facts):
            self.hear(
                self.talk.release(
                    application_id=request.application_id, uuid=request.uuid, termination=request.termination
                )
            )

    def submit(self) -> None:
        for number, plan in enumerate(self.plans):
            whole = Resources(memory=plan.members * plan.memory)
            fields = {"user": plan.user, "groups": plan.groups, "gang_style": plan.style}
            self.hear(self.talk.apps(an_app(f"g{number}", plan.queue, placeholder_ask=whole, **fields)))
        for number, plan in enumerate(self.plans):
            keys, count = (1, plan.members) if plan.as_one else (plan.members, 1)
            self.hear(
                self.talk.asks(*(a_placeholder(f"p{key}", plan.memory, count, f"g{number}") for key in range(keys)))
            )

    def reload(self, root: QueueSpec) -> None:
        spec = a_partition_spec(root)
        self.hear(self.talk.step(UpdateConfiguration(self.talk.rm_id, (spec,))))

    def move(self, kind: str, amount: int) -> None:
        match kind:
            case "reload":
                self.reload(self.root)
            case "widen":
                self.reload(WIDE)
            case "node":
                self.nodes += 1
                self.hear(self.talk.nodes(a_node(f"n{self.nodes}", {"memory": WHOLE})))
            case "cycle":
                self.hear(self.talk.cycle(amount))
            case "sleep":
                self.hear(self.talk.sleep(amount * SECOND_NS))

    def play_on(self) -> None:
        """Until all have run: time goes on, and a gang that has run for a while is removed."""
        end_ns, removed = self.talk.now_ns + LONG_NS, set[str]()
        while len(self.ran) < len(self.plans) and self.talk.now_ns < end_ns:
            self.hear(self.talk.schedule())
            self.hear(self.talk.sleep(RUNS_NS))
            self.hear(self.talk.schedule())
            for name in self.ran:
                if name not in removed:
                    removed.add(name)
                    self.hear(self.talk.remove(name))


def two(**fields: Any) -> list[GangPlan]:
    """Two gangs of one user and group in different queues."""
    plan = GangPlan("root.p.a", "ann", ("dev",), 6, 10, "Hard", as_one=False)
    return [replace(plan, **fields), replace(plan, queue="root.p.b", **fields)]


def only(path: str, amount: int | None = None, *limits: LimitSpec) -> Levels:
    return UNLIMITED | {path: (amount, 0, limits)}


HALF_PLACED = [("cycle", 9)]
NARROW = Limits(memory=WHOLE + 20)


@example(two(), only("root", None, LimitSpec(("ann",), (), NARROW)), 3, True, [])
@example(two(style="Soft"), only("root", None, LimitSpec(("*",), (), NARROW)), 3, True, [])
@example(two(as_one=True), only("p", None, LimitSpec((), ("dev",), NARROW)), 3, True, [])
@example(two(groups=("x",)), only("root", None, LimitSpec((), ("*",), NARROW)), 3, True, [])
@example(two(), only("p", WHOLE + 20), 3, False, HALF_PLACED)
@example(two(), only("root", None, LimitSpec(("ann",), (), NARROW)), 3, False, HALF_PLACED)
@example(two(), only("p", None, LimitSpec((), ("dev",), NARROW)), 3, False, HALF_PLACED)
@example(two(), UNLIMITED | {"p": (None, 1, ()), "root": (None, 0, (LimitSpec(("*",), (), NARROW, 1),))}, 3, True, [])
@given(st.lists(gangs, min_size=2, max_size=4), levels(), st.sampled_from((3, 2, 1)), st.booleans(), moves)
def test_gangs_that_fit_one_after_the_other_all_run(
    plans: list[GangPlan], of_level: Levels, nodes: int, is_limited_before: bool, before: list[tuple[str, int]]
) -> None:
    turns = Turns(plans, tree(of_level))
    for _ in range(nodes):
        turns.move("node", 0)
    if is_limited_before:
        turns.reload(turns.root)
    turns.submit()
    for kind, amount in before:
        turns.move(kind, amount)
    turns.reload(turns.root)
    turns.play_on()
    event("some gang gave way" if turns.gave_way else "no gang gave way")
    assert sorted(turns.ran) == [f"g{number}" for number in range(len(plans))]
