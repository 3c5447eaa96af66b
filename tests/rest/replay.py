"""Plays the stories of a folder, and judges each answer: equal, equal by rule, or not equal."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter, deque
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedulerd.core.language.facts.fact import ApplicationRejected, AskRejected, CheckFailed, NodeRejected, RejectCode
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed
from schedulerd.core.language.specs import SECOND_NS
from tests.rest import causes, projection
from tests.rest.asgi import STREAM_TURNS, Answer, ask
from tests.rest.body import comparable, event_counts, of_yaml
from tests.rest.compare import Difference, Json, differences
from tests.rest.rules import EXCUSES
from tests.rest.story import Player, in_ids_of, read_answers, read_story
from tests.rest.transforms import TRANSFORMS, Facts, Pair
from tests.rest.world import World

HEADERS = ("Content-Type", "Allow", "Location", "Content-Encoding", "Vary")
"""Headers that are compared; the others depend on who serves."""

FIRST_MAX = 12
"""Differences of a story that are printed."""

SENTENCES = {rule.name: rule.sentence for rule in (*TRANSFORMS, *EXCUSES)}

VERSIONS = ("1.4", "head")
LAG_MIN_NS = SECOND_NS
"""Less than this is what its requests and waits took the recorder beside what the story says."""
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
    return asyncio.run(_replay(folder, name, recorded))


async def _replay(folder: Path, name: str, recorded: str) -> Result:
    steps = {one: folder / f"{one}-{name}.story.json" for one in VERSIONS}
    answers = {one: folder / f"{one}-{name}.jsonl.gz" for one in VERSIONS}
    played = "1.4" if steps["1.4"].exists() else "head"
    version = recorded or ("head" if answers["head"].exists() else "1.4")
    if version == "head" and played == "1.4" and _lacks_dumps(steps["1.4"], answers["head"]):
        if not recorded and answers["1.4"].exists():
            version = "1.4"
        elif steps["head"].exists():
            played = "head"
    story = read_story(steps[played])
    found = read_answers(answers[version]) if answers[version].exists() else []
    if played != version and steps[version].exists():
        found = in_ids_of(story, read_story(steps[version]), found)
    foreign = causes.foreign_of(steps["head"])
    return await _Replay(story, found, version, foreign, of_head=played == "head").run(name)


def _lacks_dumps(story: Path, answers: Path) -> bool:
    """Whether there are answers that were taken where the story has no dump."""
    labels = {step["label"] for step in read_story(story)["steps"] if step["op"] == "dump"}
    return answers.exists() and any(one["phase"] not in labels for one in read_answers(answers))


class _Replay:
    def __init__(
        self, story: Json, answers: list[Json], version: str, foreign: Counter[str], *, of_head: bool = False
    ) -> None:
        """`of_head`: the story is of head too, and not only its answers."""
        self._story = story
        self._answers = answers
        self._version = version
        self._world = World()
        self._facts = Facts(foreign=foreign, of_head=version == "head")
        self._unnoted = deque(story["steps"])
        self._world.sinks.attach(self._note)
        self._judgements: list[Judgement] = []
        self._dumped: set[str] = set()
        self._with_unclaimed: set[str] = set()
        """Nodes that had an unclaimed allocation at any time."""
        self._player = Player(self._world, self._dump, of_head=of_head)
        self._recorder_ahead_ns: int | None = None
        """The recorder's clock less ours, at the first dump."""

    async def run(self, name: str) -> Result:
        try:
            await self._player.play(self._story)
        except Exception as error:  # noqa: BLE001  # other stories go on, and this one does not agree
            broken = Difference("", "a story that can be played", f"{type(error).__name__}: {error}")
            self._judgements.append(Judgement("(played)", "to its end", "", (), (broken,)))
        self._judgements += [_not_asked(one) for one in self._answers if one["phase"] not in self._dumped]
        if not self._judgements:
            nothing = Difference("", "answers to compare with", "none")
            self._judgements.append(Judgement("(recorded)", "at all", "", (), (nothing,)))
        return Result(name, self._version, self._judgements, self._player.refused)

    def _note(self, facts: Any, _now: object) -> None:
        for fact in facts:
            if isinstance(fact, AskRejected | CheckFailed):
                self._facts.failures["ask"] += 1
            elif isinstance(fact, NodeRejected):
                self._facts.failures["node"] += 1
            elif isinstance(fact, AllocationUnclaimed):
                self._with_unclaimed.add(fact.node_id)
            elif isinstance(fact, ApplicationRejected):
                is_again = fact.code is RejectCode.DUPLICATE_ID
                if is_again:
                    self._facts.duplicates[fact.application_id] += 1
                else:
                    self._facts.rejected.add(fact.application_id)

    async def _dump(self, label: str) -> None:
        recorded = [one for one in self._answers if one["phase"] == label]
        self._dumped.add(label)
        self._catch_up(recorded)
        while (step := self._unnoted.popleft())["op"] != "dump":
            causes.note(self._facts, step)
        partitions = list(self._world.scheduler.cluster.partitions())
        self._facts.partitions = {one.name for one in partitions}
        self._facts.active = {name for one in partitions for name in one.applications}
        nodes = [node for one in partitions for node in one.nodes.values() if node.node_id in self._with_unclaimed]
        self._facts.kept_nodes = {node.node_id: dict(node.capacity) for node in nodes}
        self._facts.moved = False
        for one in recorded:
            if one["request"]["path"].endswith(PHASE_NODES) and isinstance(one["response"].get("body"), list):
                ours = await self._ask(one["request"])
                self._facts.moved |= causes.moved(one["response"]["body"], ours.json, self._facts)
        for one in recorded:
            self._judgements.append(self._judge(label, one, await self._ask(one["request"])))

    def _catch_up(self, recorded: list[Json]) -> None:
        """Waits until as much time has passed since the first dump as for the recorder, so that timeouts and samples
        of the history are on the same side of this dump."""
        taken = [one["takenAtNano"] for one in recorded if "takenAtNano" in one]
        if not taken:
            return
        if self._recorder_ahead_ns is None:
            self._recorder_ahead_ns = min(taken) - self._world.time.now_ns
        lag_ns = min(taken) - self._recorder_ahead_ns - self._world.time.now_ns
        if lag_ns >= LAG_MIN_NS:
            self._player.pass_time(lag_ns)

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
        sent = recorded["request"]["body"] or ""
        pair = Pair(recorded["name"], path, deepcopy(expected), deepcopy(ours), answer.status, sent)
        rules += [rule.name for rule in TRANSFORMS if rule.apply(pair, self._facts)]
        has_failed = answer.status >= 500 and answer.status != status  # no rule excuses that
        left, excused = [], []
        for difference in _all_differences(status, headers, response, pair, answer):
            takers = (one for one in EXCUSES if one.takes(difference, pair, self._facts))
            rule = None if has_failed else next(takers, None)
            if rule is None:
                left.append(difference)
            else:
                excused.append((difference, rule.name))
        rules += [name for _, name in excused]
        return Judgement(label, recorded["name"], path, tuple(dict.fromkeys(rules)), tuple(left), tuple(excused))


def _not_asked(recorded: Json) -> Judgement:
    """An answer that was taken at a dump that the story does not have, or does not come to."""
    missing = Difference("", "a dump of this phase", "none")
    return Judgement(recorded["phase"], recorded["name"], recorded["request"]["path"], (), (missing,))


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
