"""Plays the stories of a folder, and judges each answer: equal, equal by rule, or not equal."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedulerd.core.facts import ApplicationRejected, RejectCode
from tests.rest import projection
from tests.rest.asgi import STREAM_TURNS, Answer, ask
from tests.rest.body import comparable, event_counts, of_yaml
from tests.rest.compare import Difference, Json, differences
from tests.rest.rules import EXCUSES
from tests.rest.story import Player, read_answers, read_story
from tests.rest.transforms import TRANSFORMS, Facts, Pair, each_object
from tests.rest.world import World

HEADERS = ("Content-Type", "Allow", "Location", "Content-Encoding", "Vary")
"""Headers that are compared; the others depend on who serves."""

FIRST_MAX = 12
"""Differences of a story that are printed."""

SENTENCES = {rule.name: rule.sentence for rule in (*TRANSFORMS, *EXCUSES)}

PHASE_NODES = "/nodes"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One answer."""

    phase: str
    name: str
    path: str
    rules: tuple[str, ...]
    """Names of the rules that were needed."""
    left: tuple[Difference, ...]
    """What no rule excuses."""
    excused: tuple[tuple[Difference, str], ...] = ()
    """What a rule excuses, with its name."""


@dataclass(slots=True)
class Result:
    """One story."""

    name: str
    recorded: str
    """Of which version the answers are: `head`, or `1.4`."""
    judgements: list[Judgement] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Queue files of the story that could not be loaded."""

    def count(self, kind: str) -> int:
        """Of `equal`, `by rule` or `not equal`."""
        return sum(1 for one in self.judgements if _kind(one) == kind)


def _kind(judgement: Judgement) -> str:
    return "not equal" if judgement.left else "by rule" if judgement.rules else "equal"


def stories(folder: Path) -> list[str]:
    """The names of the stories of a folder."""
    found = {path.name.split("-", 1)[1].removesuffix(".story.json") for path in folder.glob("*-*.story.json")}
    return sorted(found)


def replay(folder: Path, name: str, recorded: str = "") -> Result:
    """Plays one story. `recorded` is the version to compare with; '' for head where its answers are there."""
    has_head = (folder / f"head-{name}.jsonl.gz").exists()
    version = recorded or ("head" if has_head else "1.4")
    return asyncio.run(_replay(folder, name, version))


async def _replay(folder: Path, name: str, version: str) -> Result:
    played = folder / f"1.4-{name}.story.json"
    story = read_story(played if played.exists() else folder / f"head-{name}.story.json")
    answers = read_answers(folder / f"{version}-{name}.jsonl.gz")
    own_labels = {step["label"] for step in story["steps"] if step["op"] == "dump"}
    without = {one["phase"] for one in answers} - own_labels
    if without and version == "head" and (folder / f"1.4-{name}.jsonl.gz").exists():
        # A phase of head that the steps of 1.4 do not have: there is nothing to compare it with.
        answers, version = read_answers(folder / f"1.4-{name}.jsonl.gz"), "1.4"
    foreign = _foreign(folder / f"head-{name}.story.json")
    return await _Replay(story, answers, version, foreign, of_head=not played.exists()).run(name)


class _Replay:
    def __init__(
        self, story: Json, answers: list[Json], version: str, foreign: Counter[str], *, of_head: bool = False
    ) -> None:
        """`of_head`: the story is of head too, and not only its answers."""
        self._story = story
        self._of_head = of_head
        self._answers = answers
        self._version = version
        self._world = World()
        self._facts = _facts_of(story, foreign)
        self._facts.of_head = version == "head"
        self._world.sinks.attach(self._note)
        self._judgements: list[Judgement] = []

    async def run(self, name: str) -> Result:
        player = Player(self._world, self._dump, of_head=self._of_head)
        try:
            await player.play(self._story)
        except Exception as error:  # noqa: BLE001  # other stories go on, and this one does not agree
            broken = Difference("", "a story that can be played", f"{type(error).__name__}: {error}")
            self._judgements.append(Judgement("(played)", "to its end", "", (), (broken,)))
        return Result(name, self._version, self._judgements, player.refused)

    def _note(self, facts: Any, _now: object) -> None:
        for fact in facts:
            if isinstance(fact, ApplicationRejected):
                is_again = fact.code is RejectCode.DUPLICATE_ID
                if is_again:
                    self._facts.duplicates[fact.application_id] += 1
                else:
                    self._facts.rejected.add(fact.application_id)

    async def _dump(self, label: str) -> None:
        recorded = [one for one in self._answers if one["phase"] == label]
        partitions = self._world.scheduler.cluster.partitions()
        self._facts.active = {name for one in partitions for name in one.applications}
        self._facts.moved = False
        for one in recorded:
            if one["request"]["path"].endswith(PHASE_NODES) and isinstance(one["response"].get("body"), list):
                ours = await self._ask(one["request"])
                self._facts.moved = _moved(one["response"]["body"], ours.json, self._facts)
        for one in recorded:
            self._judgements.append(self._judge(label, one, await self._ask(one["request"])))

    async def _ask(self, request: Json) -> Answer:
        is_stream = request["path"].endswith("/events/stream")
        return await ask(
            self._world.app,
            request["method"],
            request["path"],
            request["query"],
            request["headers"] or {},
            (request["body"] or "").encode(),
            leaves_after=STREAM_TURNS if is_stream else None,
        )

    def _judge(self, label: str, recorded: Json, answer: Answer) -> Judgement:
        response = recorded["response"]
        path = recorded["request"]["path"]
        expected, ours = _body(response, recorded["request"]), _own_body(answer, recorded["request"])
        status, headers = response["status"], dict(response["headers"])
        rules: list[str] = []
        if self._version != "head":
            status, headers, expected, ours = projection.to_head(path, status, headers, deepcopy(expected), ours)
            rules.append("1.4")
        if _is_window(recorded["request"]):
            rules.append("window")
        pair = Pair(recorded["name"], path, deepcopy(expected), deepcopy(ours))
        rules += [rule.name for rule in TRANSFORMS if rule.apply(pair, self._facts)]
        left, excused = [], []
        for difference in _all_differences(status, headers, response, pair, answer):
            rule = next((one for one in EXCUSES if one.takes(difference, pair, self._facts)), None)
            if rule is None:
                left.append(difference)
            else:
                excused.append((difference, rule.name))
        rules += [name for _, name in excused]
        return Judgement(label, recorded["name"], path, tuple(dict.fromkeys(rules)), tuple(left), tuple(excused))


def _all_differences(
    status: int, headers: dict[str, str], response: Json, pair: Pair, answer: Answer
) -> Iterator[Difference]:
    if status != answer.status:
        yield Difference("status", status, answer.status)
    for name in HEADERS:
        there, ours = headers.get(name, ""), answer.headers.get(name.lower(), "")
        if there != ours and not _is_metrics(pair.path, name):
            yield Difference(name, there, ours)
    if "bodyBytes" in response:  # compressed, and not kept
        return
    yield from differences(pair.expected, pair.actual)


def _is_window(request: Json) -> bool:
    """Whether a number of events is asked for: which ones depends on their ids, and these on what has events."""
    return request["path"].endswith("/events/batch") and re.search(r"(^|&)count=[0-9]", request["query"]) is not None


def _is_metrics(path: str, header: str) -> bool:
    """The content type of metrics has a version of the format."""
    return header == "Content-Type" and path.endswith("/metrics")


def _body(response: Json, request: Json) -> Json:
    path = request["path"]
    if path.endswith("/metrics"):
        return bool(response.get("bodyText"))
    if "body" in response:
        return _of_json(response["body"], request)
    return _of_text(response.get("bodyText", ""), response["headers"].get("Content-Type", ""), request)


def _own_body(answer: Answer, request: Json) -> Json:
    path = request["path"]
    if path.endswith("/metrics"):
        return True
    content_type = answer.headers.get("content-type", "")
    if content_type.startswith("application/json") and not path.endswith("/events/stream"):
        return _of_json(answer.json, request)
    return _of_text(answer.text, content_type, request)


def _of_text(text: str, content_type: str, request: Json) -> Json:
    path = request["path"]
    if content_type.startswith("application/x-yaml"):
        return comparable(of_yaml(text))
    if path.endswith("/events/stream"):
        return bool(text.splitlines()[:1])
    if content_type.startswith("application/json") and text.strip():
        return _of_json(json.loads(text), request)
    return text


def _of_json(body: Json, request: Json) -> Json:
    path = request["path"]
    if path.endswith("/events/stream"):
        return True
    if path.endswith("/events/batch") and isinstance(body, dict) and "EventRecords" in body:
        records = body["EventRecords"]
        if records is None:
            return {"EventRecords": None}
        return {"EventRecords": len(records) if _is_window(request) else event_counts(records)}
    return comparable(body)


def _moved(recorded: list[Json], ours: Json, facts: Facts) -> bool:
    """Whether the same allocations, of the same sum, are on other nodes."""
    if not isinstance(ours, list):
        return False
    names = {f"{key}-{number}": key for key, count in facts.several.items() for number in range(count)}
    there = {node["nodeID"]: _keys(node, names) for node in recorded}
    here = {node["nodeID"]: _keys(node, names) for node in ours}
    if there == here or there.keys() != here.keys():
        return False
    return _sum(there.values()) == _sum(here.values()) and _allocated(recorded) == _allocated(ours)


def _keys(node: Json, names: dict[str, str]) -> Counter[str]:
    return Counter(names.get(one["allocationKey"], one["allocationKey"]) for one in node.get("allocations", ()))


def _sum(counters: Any) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counters:
        total += one
    return total


def _allocated(nodes: list[Json]) -> Counter[str]:
    total: Counter[str] = Counter()
    for node in nodes:
        total.update({name: amount for name, amount in node.get("allocated", {}).items() if amount})
    return total


def _facts_of(story: Json, foreign: Counter[str]) -> Facts:
    facts = Facts(foreign=foreign)
    asked: set[str] = set()
    offered: set[str] = set()
    limited: set[str] = set()
    for step in story["steps"]:
        message = step.get("message", {})
        if step["op"] == "node":
            for node in message.get("nodes", ()):
                if node.get("action") == "UPDATE" and node.get("attributes"):
                    facts.renamed_nodes[node["nodeID"]] = node["attributes"]
        for one in message.get("asks", ()):
            if int(one.get("maxAllocations", 1)) > 1:
                facts.several[one["allocationKey"]] = int(one["maxAllocations"])
        if step["op"] == "allocation":
            asked |= {name for one in message.get("asks", ()) for name in one["resourceAsk"].get("resources", {})}
        if step["op"] in ("register", "config"):
            limited |= {name for one in _limits(message.get("config", "")) for name in one.get("maxresources", {})}
        if step["op"] == "node":
            offered |= {
                name
                for node in message.get("nodes", ())
                for name in node.get("schedulableResource", {}).get("resources", {})
            }
        if step["op"] == "register":
            switch = message.get("extraConfig", {}).get("event.trackingEnabled", "true")
            facts.switches_off_events |= switch.lower() == "false"
    facts.diverges = bool(asked - offered) or bool(limited and asked - limited)
    return facts


def _limits(config: str) -> Iterator[Json]:
    """The limits of a queue file."""
    for one in each_object(of_yaml(config) if config else {}):
        yield from (limit for limit in one.get("limits") or () if isinstance(limit, dict))


def _foreign(path: Path) -> Counter[str]:
    """Foreign allocations by node in the steps of head; it has them where the steps of 1.4 say `occupied`."""
    found: Counter[str] = Counter()
    if path.exists():
        for one in each_object(read_story(path)["steps"]):
            if "foreign" in (one.get("allocationTags") or {}):
                found[one.get("nodeID", "")] += 1
    return found


def report(result: Result, *, explains: bool = False) -> Iterator[str]:
    """The lines about one story. `explains`: also each difference that a rule excuses."""
    counts = [result.count(kind) for kind in ("equal", "by rule", "not equal")]
    yield f"{result.name} ({result.recorded}): {counts[0]} equal, {counts[1]} equal by rule, {counts[2]} not equal"
    for reason in result.refused:
        yield f"    a queue file was refused: {_short(reason)}"
    used = Counter(rule for one in result.judgements if not one.left for rule in one.rules)
    for rule, count in sorted(used.items()):
        yield f"    by rule {rule}: {count}"
    for one in result.judgements if explains else ():
        for difference, rule in one.excused:
            yield f"    {one.phase} {one.path} {difference.pointer or '/'}: {rule}: {SENTENCES[rule]}"
    shown = [(one, difference) for one in result.judgements for difference in one.left]
    for judgement, difference in shown[:FIRST_MAX]:
        yield (
            f"    {judgement.phase} {judgement.name} {judgement.path} {difference.pointer or '/'}: "
            f"recorded {_short(difference.expected)}, ours {_short(difference.actual)}"
        )
    if len(shown) > FIRST_MAX:
        yield f"    and {len(shown) - FIRST_MAX} more differences"


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 200 else f"{text[:197]}..."
