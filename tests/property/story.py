"""Plays random moves against a scheduler: asks, releases, nodes, applications that come and go, and reloads.

Every number of a move picks one of what there is, so any list of moves is a story, and a shorter one is a story too.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import event
from hypothesis import strategies as st

from schedulerd.core.language.commands import Command, NodeAction, UpdateConfiguration
from schedulerd.core.language.facts.configuration import ConfigurationRejected
from schedulerd.core.language.facts.fact import Fact, Released
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import DAY_NS, MINUTE_NS, SECOND_NS, PartitionSpec, Timeouts
from tests.property.naive import Recount
from tests.property.trees import USERS, Tree, changed, seeds, trees
from tests.unit.core.builders import RM, Conversation, a_node, a_scheduler, an_app, an_ask, an_existing, of

SHAPES = (
    Resources(memory=1),
    Resources(memory=3),
    Resources(memory=7),
    Resources(memory=1, gpu=1),
    Resources(gpu=2),
    Resources(vcore=2),
)
NODES: tuple[dict[str, int], ...] = (
    {"memory": 12, "vcore": 2},
    {"memory": 30, "vcore": 8, "gpu": 4},
    {"memory": 4, "gpu": 3},
)
MEMBERSHIPS: tuple[tuple[str, ...], ...] = (("staff",), (), ("lab", "staff"), ("guests",))
"""The groups of users; no limit names the guests."""
LEAVES_USED = 3
"""So few that several applications share a leaf."""
APPLICATIONS = 6
"""Submitted at the start."""
PAUSES_NS = (11 * SECOND_NS, 31 * SECOND_NS, 6 * MINUTE_NS)
"""After these, queues that nobody needs are gone, idle applications have completed, those that start have started."""

Move = tuple[str, int, int, int]
numbers = st.integers(0, 1_000)
_OFTEN = ("ask",) * 6 + ("release",) * 2
_SELDOM = ("take back", "node", "drain", "undrain", "submit", "remove", "wait")


def moves(*more: str) -> st.SearchStrategy[Move]:
    """One move; those of `more` come on top."""
    return st.tuples(st.sampled_from((*_OFTEN, *_SELDOM, *more)), numbers, numbers, numbers)


plans = st.lists(moves("reload", "reload"), min_size=15, max_size=30)


several_trees = st.builds(lambda first, one, other: [first, changed(first, one), other], trees, seeds, trees)
"""What the queue file says at first, and what else it will say: other quotas, and another tree altogether."""


class Story(Conversation):
    """A conversation made of moves, of which a recount hears every word. It begins with a node and applications."""

    def __init__(self, files: Sequence[Tree], *, keeps_room: bool = True) -> None:
        """`keeps_room`: whether nodes are kept for who waits for long; else whoever is first in order gets them."""
        super().__init__(a_scheduler(Timeouts() if keeps_room else Timeouts(reservation_delay_ns=DAY_NS)))
        self.files = files
        """What the queue file may say; the first is what it says at first."""
        self.now = files[0]
        """What it says now."""
        self.recount = Recount(self.now.specs)
        self._asks = self._nodes = self._submitted = 0
        self.register(PartitionSpec("default", self.now.root))
        self.connect()
        self._node(1, 1)
        for number in range(APPLICATIONS):
            self._submit(number * 7, number, number)

    def step(self, command: Command) -> list[Fact]:
        facts = super().step(command)
        for fact in facts:
            self.hear(fact)
        return facts

    def hear(self, fact: Fact) -> None:
        """Takes in what the scheduler said, one thing after the other."""
        self.recount.hear(fact)

    def play(self, what: str, one: int, two: int, three: int) -> None:
        live = sorted(self.recount.applications)
        app = live[one % len(live)] if live else ""
        match what:
            case "node":
                self._node(two, three, app)
            case "drain" | "undrain":
                action = NodeAction.DRAIN_NODE if what == "drain" else NodeAction.DRAIN_TO_SCHEDULABLE
                self.nodes(a_node(f"n{two % self._nodes}", action=action))
            case "wait":
                self.sleep(PAUSES_NS[one % len(PAUSES_NS)])
            case "reload":
                self.reload(self.files[one % len(self.files)])
            case "release":
                self._release(two)
            case _ if what == "submit" or not live:
                self._submit(one, two, three)
            case "ask":
                self._asks += 1
                size, key = SHAPES[two % len(SHAPES)], f"k{self._asks:03}"
                self.asks(an_ask(key, app=app, count=1 + three % 4, priority=three // 4 % 2, resources=size))
            case "take back":
                self.release_asks(application_id=app)
            case "remove":
                self.remove(app)

    def reload(self, tree: Tree) -> bool:
        """False if the file cannot hold now, because a leaf in use would become a parent."""
        facts = self.step(UpdateConfiguration(RM, (PartitionSpec("default", tree.root),)))
        holds = not of(ConfigurationRejected, facts)
        event("reloaded" if holds else "reload refused")
        if holds:
            self.now = tree
            self.recount.specs.update(tree.specs)
        return holds

    def note_why_asks_wait(self) -> None:
        """Tells hypothesis' statistics which states were reached."""
        for app in self.view().applications:
            for ask in app.asks:
                why = self.recount.refusal(app.application_id, ask.resources).partition(" root")[0]
                event(f"waits for: {why or 'a node, or its turn'}")

    def _submit(self, one: int, two: int, three: int) -> None:
        leaves = self.now.leaves[:LEAVES_USED]
        fields = {"user": USERS[two % len(USERS)], "groups": MEMBERSHIPS[three % len(MEMBERSHIPS)]}
        application = an_app(f"a{self._submitted:03}", leaves[one % len(leaves)], **fields)
        self._submitted += 1
        self.recount.submit(application)
        self.apps(application)

    def _node(self, two: int, three: int, app: str = "") -> None:
        """A new node; at times with something on it that no quota was asked about."""
        number = self._nodes
        self._nodes += 1
        runs = [an_existing(f"e{number}", f"e{number}", app, memory=5)] if app and three % 3 == 0 else []
        self.nodes(a_node(f"n{number}", dict(NODES[two % len(NODES)]), *runs))

    def _release(self, two: int) -> None:
        held = list(self.recount.allocations.values())
        if held:
            fact = held[two % len(held)]
            gone = of(Released, self.release(application_id=fact.application_id, uuid=fact.uuid))
            event(f"released: {len(gone)}")
