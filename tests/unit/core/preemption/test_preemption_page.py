"""The worked example of `docs/preemption.md` comes out as the page says, and the texts that it quotes are said."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schedulerd.config import load_queue_file, matches
from schedulerd.config.settings import Settings
from schedulerd.core.language.facts.fact import Fact, ReleaseRequested
from schedulerd.core.language.facts.preemption import Preempted, PreemptionRefusal
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.preemption.handlers import preemption
from schedulerd.core.scheduler import Scheduler
from schedulerd.sentences import preemption as sentences
from tests.unit.core.builders import Conversation, a_node, an_app, an_ask, numbered, of, only, placed

PAGE = Path(__file__).parents[4] / "docs" / "preemption.md"
TEXT = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8"))
"""With each run of white space as one, because sentences are wrapped."""
DELAY_NS = 30 * SECOND_NS
CORE = 1_000
NODE_CORES = 10

Row = dict[str, str]


def example() -> str:
    return PAGE.read_text(encoding="utf-8").partition("## A worked example\n")[2].partition("\n## ")[0]


def tables() -> tuple[list[Row], list[Row]]:
    """What runs, and the asks with what becomes of them: each row by the headings of its table."""
    found: list[list[Row]] = []
    headings: list[str] = []
    for line in example().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            headings = []
        elif not headings:
            headings = cells
            found.append([])
        elif set(line) != set("|-"):
            found[-1].append(dict(zip(headings, cells, strict=True)))
    running, asks = found
    return running, asks


RUNNING, ASKS = tables()


def owner(row: Row) -> str:
    """The application of the queue; each has one, of the queue's own name."""
    return row["queue"].rpartition(".")[2]


def vcores(row: Row) -> Resources:
    return Resources(vcore=int(row["vcore"]) * CORE)


@pytest.fixture
def talk() -> Conversation:
    """The cluster of the example, full: nodes come one by one, so that everything runs where the page has it."""
    (yaml,) = re.findall(r"```yaml\n(.*?)```", example(), re.DOTALL)
    talk = Conversation(Scheduler(Settings().timeouts(), numbered(), matches))
    talk.register(*load_queue_file(yaml).partitions)
    talk.connect()
    talk.apps(*(an_app(owner({"queue": queue}), queue) for queue in dict.fromkeys(row["queue"] for row in RUNNING)))
    for name in dict.fromkeys(row["node"] for row in RUNNING):
        talk.nodes(a_node(name, {"vcore": NODE_CORES * CORE}))
        for row in [row for row in RUNNING if row["node"] == name]:
            talk.asks(
                an_ask(
                    row["allocation"],
                    app=owner(row),
                    resources=vcores(row),
                    priority=int(row["priority"]),
                    originator=row["originator"] == "yes",
                )
            )
            assert placed(talk.schedule()) == [(owner(row), row["allocation"], name)]
        assert talk.node(name).available == {}
    return talk


def ask_and_wait(talk: Conversation, row: Row) -> list[Fact]:
    """The ask comes and waits for as long as it has to; all facts from its first to its last moment."""
    ask = an_ask(
        row["ask"], app=owner(row), resources=vcores(row), priority=int(row["priority"]), allow_preempt_other=True
    )
    facts = [*talk.asks(ask), *talk.schedule()]
    facts += [*talk.sleep(DELAY_NS - 1), *talk.schedule()]
    assert of(Preempted, facts) == [], "nothing is preempted before the delay is over"
    return [*facts, *talk.sleep(1), *talk.schedule()]


def preempted(talk: Conversation, facts: list[Fact]) -> list[str]:
    return [fact.allocation_key for fact in of(ReleaseRequested, facts)]


def shown(talk: Conversation, row: Row) -> tuple[str, str]:
    """Why the ask waits, and why nothing is preempted for it."""
    [ask] = [ask for ask in talk.app(owner(row)).asks if ask.allocation_key == row["ask"]]
    return ask.waiting_for, ask.no_preemption_because


def test_the_example_comes_out_as_the_page_says(talk: Conversation) -> None:
    assert [row["ask"] for row in ASKS if row["preempted"]] == ["api"], "the page tells of one that makes room"
    for row in ASKS:
        facts = ask_and_wait(talk, row)
        assert preempted(talk, facts) == row["preempted"].split()
        waiting_for, no_preemption_because = shown(talk, row)
        assert no_preemption_because == row["reason if nothing is"]
        if row["preempted"]:
            decided = only(Preempted, facts)
            assert (decided.node_id, decided.why in TEXT, waiting_for in TEXT) == (row["on"], True, True)
            assert {fact.message in TEXT for fact in of(ReleaseRequested, facts)} == {True}


def test_the_numbers_that_the_page_works_with(talk: Conversation) -> None:
    used = {path: talk.queue(path).allocated["vcore"] // CORE for path in ("root.prod", "root.batch", "root.lab")}
    assert used == {"root.prod": 2, "root.batch": 14, "root.lab": 4}
    for row in ASKS[: 1 + [bool(row["preempted"]) for row in ASKS].index(True)]:
        ask_and_wait(talk, row)
    prod, batch = talk.queue("root.prod"), talk.queue("root.batch")
    assert prod.allocated["vcore"] + prod.quota_reserved["vcore"] == 6 * CORE
    assert batch.allocated["vcore"] - batch.leaving["vcore"] == 10 * CORE


def test_the_ask_is_placed_when_its_victim_is_gone_and_not_before(talk: Conversation) -> None:
    for row in ASKS:
        ask_and_wait(talk, row)
    [row] = [row for row in ASKS if row["preempted"]]
    [victim] = [one for one in talk.app("batch").allocations if one.releasing]
    assert (victim.allocation_key, victim.releasing) == (row["preempted"], "PREEMPTED_BY_SCHEDULER")
    talk.release(application_id="batch", uuid=victim.uuid)
    assert placed(talk.schedule()) == [(owner(row), row["ask"], row["on"])]


@pytest.mark.parametrize("name", ["reservation_delay_s", "reservation_s", "preemption_attempt_s"])
def test_the_defaults_of_the_settings_are_those_of_the_page(name: str) -> None:
    [written] = re.findall(rf"\| `{name}` \| (\d+) (s|min) \|", TEXT)
    amount, unit = written
    assert getattr(Settings(), name) == int(amount) * {"s": 1, "min": 60}[unit]


def test_the_rules_are_ten() -> None:
    rules = PAGE.read_text(encoding="utf-8").partition("## The ten rules\n")[2].partition("\n## ")[0]
    numbered_rules = re.split(r"^ *\d+\. ", rules.partition("\n\nWhat an ask")[0], flags=re.MULTILINE)[1:]
    assert len(numbered_rules) == 10
    assert all(len(re.findall(r"\.(?:\s|$)", rule)) <= 4 for rule in numbered_rules), "each is a few sentences"


@pytest.mark.parametrize("reason", [sentences.NO_GUARANTEE, sentences.NOT_ENTITLED, sentences.NO_VICTIMS])
def test_the_reasons_for_a_refusal_are_those_of_the_page(reason: str) -> None:
    assert reason in TEXT


def test_the_reason_because_of_a_quota_is_that_of_the_page() -> None:
    search: Any = SimpleNamespace(limit="LIMIT")
    _, _, said = preemption._reason(search, PreemptionRefusal.QUOTA).partition("LIMIT, ")
    assert f"`{said}`" in TEXT
