"""Plays one scenario on a fresh scheduler and writes down all that it answered, in the format of `expected/`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

from schedulerd.config import QueueFileInvalid, load_queue_file, matches
from schedulerd.core.autoscaling import summary as autoscaling
from schedulerd.core.language.commands import (
    CleanQueues,
    Command,
    ConnectResourceManager,
    GivePredicateResults,
    RegisterResourceManager,
    RunCycle,
    UpdateAllocations,
    UpdateConfiguration,
)
from schedulerd.core.language.facts.fact import Allocated, Fact, Released, ReleaseRequested
from schedulerd.core.language.specs import MILLISECOND_NS, OptOut, PartitionSpec
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.views import view
from tests.conformance import steps
from tests.conformance.events import Event, event_of, in_reading_order
from tests.conformance.history import History, Turn
from tests.conformance.snapshot import snapshot
from tests.conformance.steps import PARTITION, RM_ID, Json, Unsupported, Wanted
from tests.sim.virtual_time import VirtualTime

START_NS = 1_700_000_000_000_000_000


def play(scenario: Json, opt_out: OptOut | None = None) -> Json:
    """What we answered. `opt_out` goes above `preemption.optout` of the queue file. Raises `Unsupported` if the
    scenario needs what this version cannot do."""
    return play_through(scenario, opt_out)[0]


def play_through(scenario: Json, opt_out: OptOut | None = None) -> tuple[Json, History]:
    """The same with all that the core said to each step; without any step if the registration fails."""
    result: Json = {"name": scenario["name"], "unstable": [], "registerError": "", "checks": []}
    try:
        partitions = _partitions(scenario["config"], opt_out)
    except QueueFileInvalid as error:
        result["registerError"] = str(error)
        return result, []
    player = Player(scenario, opt_out)
    player.step(RegisterResourceManager(RM_ID, partitions))
    player.step(ConnectResourceManager(RM_ID))
    if player.predicates.connect is not None:
        player.step(player.predicates.connect)
    for step in scenario["steps"]:
        player.act(step)
    result["checks"] = player.checks
    return result, player.history


class Player:
    """The resource manager of a scenario: it knows what it was told, so that later steps can refer to it."""

    def __init__(self, scenario: Json, opt_out: OptOut | None) -> None:
        self._opt_out = opt_out
        uuids = count(1)
        scheduler = Scheduler(steps.timeouts(scenario), lambda: f"uuid-{next(uuids)}", matches)
        self.time = VirtualTime(scheduler, START_NS)
        self.predicates = steps.predicates(scenario)
        self.checks: list[Json] = []
        self.history: History = [[]]
        self._rename = steps.aliases(scenario)
        self._events: list[Event] = []
        self._message = 0
        self._uuids: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        """UUIDs by application and key, oldest first, of allocations that are not known to be gone."""
        self._to_confirm: list[ReleaseRequested] = []
        self._actions: dict[str, Callable[..., None]] = {
            "nodes": self._nodes,
            "apps": lambda items: self.step(steps.update_applications(items)),
            "removeApps": lambda items: self.step(steps.remove_applications(items)),
            "asks": lambda items: self.step(steps.update_asks(items)),
            "releaseAsks": lambda items: self.step(steps.release_asks(items)),
            "releaseAllocs": self._release_allocations,
            "confirmReleases": self._confirm_releases,
            "schedule": self._schedule,
            "sleepMs": self._sleep,
            "updateConfig": self._update_configuration,
            "validateConfig": self._validate,
            "cleanQueues": lambda _: self.step(CleanQueues(RM_ID)),
            "inspectOutstanding": self._outstanding,
            "check": self._check,
        }

    def act(self, step: Json) -> None:
        ((name, argument),) = step.items()
        if name not in self._actions:
            raise Unsupported(f"step {name}")
        self.history[-1].append(Turn(step, []))
        self._actions[name](argument)

    def step(self, command: Command) -> None:
        self._heard(self.time.step(command))

    def _heard(self, facts: list[Fact]) -> None:
        """One step's facts are one message: what it says becomes events, and what has to be confirmed is noted."""
        asked_for: list[ReleaseRequested] = []
        events = []
        if self.history[-1]:
            self.history[-1][-1].facts.extend(facts)
        for fact in facts:
            match fact:
                case Allocated(recovered=False):
                    self._uuids[fact.application_id, fact.allocation_key].append(fact.uuid)
                case Released():
                    self._forget(fact)
                case ReleaseRequested():
                    asked_for.append(fact)
            event = event_of(fact, self._rename)
            if event is not None:
                events.append(event | {"m": self._message})
        self._to_confirm += sorted(asked_for, key=lambda fact: (fact.application_id, fact.allocation_key))
        if events:
            self._events += in_reading_order(events)
            self._message += 1

    def _forget(self, gone: Released) -> None:
        known = self._uuids[gone.application_id, gone.allocation_key]
        if gone.uuid in known:
            known.remove(gone.uuid)
        self._to_confirm = [fact for fact in self._to_confirm if fact.uuid != gone.uuid]

    def _nodes(self, items: list[Json]) -> None:
        for item in items:
            for allocation in item.get("existing", ()):
                self._uuids[allocation["app"], allocation["key"]].append(steps.existing_uuid(allocation))
        self.step(steps.update_nodes(items))

    def _release_allocations(self, items: list[Json]) -> None:
        releases = [steps.allocation_release(item, self._uuid(item)) for item in items]
        self.step(UpdateAllocations(RM_ID, releases=releases))

    def _uuid(self, item: Json) -> str:
        if not item["key"]:
            return ""
        known = self._uuids[item["app"], item["key"]]
        index = item.get("index", 0)
        return known[index] if index < len(known) else f"unknown-{item['key']}"

    def _confirm_releases(self, choice: bool | Json) -> None:
        wanted: Json = choice if isinstance(choice, dict) else {}
        chosen = [
            fact
            for fact in self._to_confirm
            if fact.termination.name in wanted.get("only", [fact.termination.name])
            and fact.application_id in wanted.get("apps", [fact.application_id])
        ]
        for fact in chosen[: wanted.get("limit")]:
            item = {
                "app": fact.application_id,
                "key": fact.allocation_key,
                "terminationType": fact.termination.name,
                "partition": fact.partition,
            }
            self._to_confirm = [waiting for waiting in self._to_confirm if waiting is not fact]
            self.step(UpdateAllocations(RM_ID, releases=[steps.allocation_release(item, fact.uuid)]))

    def _schedule(self, cycles: int) -> None:
        for _ in range(cycles):
            while self._cycle():
                pass

    def _cycle(self) -> bool:
        """One cycle, and the answers to what is asked in it, at once. Whether it was only asked and refused: a cycle of
        the recordings asks about one node after the other until there is one, or none left."""
        facts = self.time.step(RunCycle(allocations_max=1))
        self._heard(facts)
        results = [self.predicates.result(fact) for fact in facts if isinstance(fact, Wanted)]
        if not results:
            return False
        self.step(GivePredicateResults(RM_ID, results))
        return any(result.refusal for result in results)

    def _sleep(self, milliseconds: int) -> None:
        for facts in self.time.sleep(milliseconds * MILLISECOND_NS):
            self._heard(facts)

    def _update_configuration(self, text: str) -> None:
        """A file with problems never reaches the core, which answers with the event for one without."""
        try:
            partitions = _partitions(text, self._opt_out)
        except QueueFileInvalid as invalid:
            self._say({"ev": "configUpdate", "error": str(invalid)})
        else:
            self.step(UpdateConfiguration(RM_ID, partitions))

    def _validate(self, text: str) -> None:
        try:
            load_queue_file(text)
            error = ""
        except QueueFileInvalid as invalid:
            error = str(invalid)
        self._say({"ev": "validateConfig", "error": error})

    def _outstanding(self, _: bool) -> None:
        waiting = autoscaling.asks(self.time.scheduler.cluster, RM_ID, PARTITION)
        asks = sorted(f"{app}|{self._rename(key)}" for app, key, count in waiting for _ in range(count))
        self._say({"ev": "outstanding", "asks": asks})

    def _say(self, event: Event) -> None:
        self._events.append(event | {"m": self._message})
        self._message += 1

    def _check(self, label: str) -> None:
        (resource_manager,) = view.resource_managers(self.time.scheduler.cluster)
        unconfirmed = list(self._unconfirmed(self._to_confirm))
        shown = snapshot(resource_manager.partitions, PARTITION, unconfirmed, self._rename)
        self.checks.append({"label": label, "events": self._events, "snapshot": shown})
        self.history.append([])
        self._events = []
        self._message = 0

    def _unconfirmed(self, releases: Iterable[ReleaseRequested]) -> Iterable[str]:
        for fact in releases:
            yield f"{fact.application_id}|{self._rename(fact.allocation_key)}:{fact.termination.name}"


def _partitions(text: str, opt_out: OptOut | None) -> tuple[PartitionSpec, ...]:
    """Raises QueueFileInvalid."""
    read = load_queue_file(text).partitions
    return read if opt_out is None else tuple(replace(one, preemption_optout=opt_out) for one in read)
