"""Events and metrics of gangs that declare their task groups: of the gang, and nothing of its slots."""

from __future__ import annotations

import json

import pytest

from schedulerd.core.language.facts.fact import Allocated
from schedulerd.core.language.facts.reservations import Reserved
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.language.task_groups import SLOT_KEYS, TASK_GROUPS_TAG
from schedulerd.observe.metrics import Metrics
from tests.instants import at
from tests.unit.core import builders
from tests.unit.core.builders import RM, Conversation, a_conversation, a_node, an_app, an_ask, of
from tests.unit.observe.event_talk import Listener, recorded, said
from tests.unit.observe.scrape import samples


class Heard:
    """A conversation of which each fact becomes an event and is counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *sizes: int) -> None:
        self.listener, self.metrics = Listener(), Metrics()
        overheard, metrics = self.listener.overhear(), self.metrics

        class Counted(overheard):  # type: ignore[valid-type, misc]
            def step(self, command):  # type: ignore[no-untyped-def]
                facts = super().step(command)
                metrics.observe(facts, at(self.now_ns))
                return facts

        monkeypatch.setattr(builders, "Conversation", Counted)
        nodes = [a_node(f"n{number}", {"memory": size}) for number, size in enumerate(sizes)]
        self.talk: Conversation = a_conversation(*nodes)

    def gang(self, least: int = 3, style: str = "Soft") -> None:
        tag = json.dumps([{"name": "w", "min": least}])
        fields = {"tags": {TASK_GROUPS_TAG: tag}, "gang_style": style, "execution_timeout_ms": 60_000}
        self.talk.apps(an_app("gang", "root.a", **fields))

    def members(self, *keys: str) -> None:
        self.talk.asks(*[an_ask(key, 10, 1, "gang", task_group="w") for key in keys])
        self.talk.schedule()

    def reasons(self) -> list[str]:
        """Those of the gang as a whole."""
        words = [one.record.reason for one in self.listener.events()]
        return [word for word in words if word.startswith("Gang")]

    def gauge(self, name: str, *labels: str) -> float:
        return samples(self.metrics, f"schedulerd_{name}").get(labels, 0)

    def slots(self) -> tuple[float, float]:
        """Pending and held."""
        pending, held = (self.gauge(name, "default", "root.a", RM) for name in ("pending_slots", "held_slots"))
        return pending, held


def test_a_gang_that_is_complete_and_short(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch, 25)
    heard.gang()
    heard.members("a", "b")
    assert heard.gauge("gang_states", "default", RM, "forming") == 1
    heard.members("c")
    assert (heard.gauge("gang_states", "default", RM, "gathering"), heard.slots()) == (1, (3, 0))
    heard.talk.nodes(a_node("late", {"memory": 10}))
    heard.talk.schedule()
    assert (heard.gauge("gang_states", "default", RM, "complete"), heard.slots()) == (1, (0, 0))
    uuid = next(iter(heard.talk.model().applications["gang"].allocations))
    heard.talk.release(application_id="gang", uuid=uuid)
    heard.talk.asks(an_ask("d", 10, 1, "gang", task_group="w"))
    assert heard.gauge("gang_states", "default", RM, "short") == 1
    assert heard.gauge("gangs_total", "short", "default", RM) == 1
    assert heard.gauge("gangs_total", "complete", "default", RM) == 1
    heard.talk.schedule()
    heard.talk.remove("gang")
    assert {state: n for state, n in samples(heard.metrics, "schedulerd_gang_states").items() if n} == {}
    assert heard.reasons() == ["GangGathering", "GangComplete", "GangShort", "GangRepaired"]


def test_only_what_the_resource_manager_asked_for_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch, 30)
    heard.gang()
    heard.members("a", "b", "c")
    assert heard.gauge("asks_added_total", "default", RM) == 3
    assert heard.gauge("placements_total", "default", RM) == 3
    assert sum(samples(heard.metrics, "schedulerd_placeholders_total").values()) == 0
    assert sum(samples(heard.metrics, "schedulerd_releases_total").values()) == 0
    assert heard.gauge("pending_allocations", "default", "root.a", RM) == 0
    assert heard.gauge("asks_awaiting_placeholder", "default", "root.a", RM) == 0
    assert heard.gauge("allocated_resources", "default", "root.a", "memory", RM) == 30
    assert heard.gauge("pending_resources", "default", "root.a", "memory", RM) == 0


@pytest.mark.parametrize(
    ("style", "last"), [("Soft", ["GangGivenUp"]), ("Hard", ["GangGivenUp"]), ("Requeue", ["GangRequeued"])]
)
def test_nothing_is_told_of_slots(monkeypatch: pytest.MonkeyPatch, style: str, last: list[str]) -> None:
    """Room is held for two of three, one after the other with reservations, until the time is over."""
    heard = Heard(monkeypatch, 20, 10)
    heard.talk.asks(an_ask("x", 10, 3))
    uuids = [one.uuid for one in of(Allocated, heard.talk.schedule())]
    heard.gang(style=style)
    heard.members("a", "b", "c")
    heard.talk.sleep(3 * SECOND_NS)
    heard.talk.schedule()
    for uuid in uuids[:2]:
        heard.talk.release(uuid=uuid)
    heard.talk.schedule()
    assert heard.slots() == (1, 2)
    heard.talk.sleep(61 * SECOND_NS)
    heard.talk.schedule()
    assert heard.slots() == (0, 0)
    assert heard.reasons() == ["GangGathering", *last]
    told = [one.record for one in heard.listener.events()]
    shown = [f"{one.object_id} {one.reference_id} {one.message}" for one in told]
    assert [one for one in shown if any(word in one.lower() for word in (*SLOT_KEYS, "placeholder"))] == []


@pytest.mark.parametrize("key", ["slot of a", "slots of w"])
def test_what_is_about_a_slot_is_said_of_its_application(key: str) -> None:
    [told] = recorded(Reserved(RM, "default", "root.a", "gang", key, "n", Resources(memory=1), True))
    assert (said(told)[:2], told.message) == (("APP", "gang"), "for a member of its gang: n is kept for it")
    assert SLOT_KEYS[0] not in str(told)
    assert SLOT_KEYS[1] not in str(told)
