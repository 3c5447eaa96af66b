"""A story: the steps of a resource manager, played on a world, with its dumps in between."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import QueueFileInvalid, load_queue_file
from schedulerd.core.language.commands import AllocationRelease, TerminationType, UpdateAllocations, UpdateConfiguration
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationAccepted,
    ApplicationChanged,
    ApplicationRejected,
    Fact,
    NodeAccepted,
    ReleaseRequested,
)
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.specs import MILLISECOND_NS, ConfigurationText
from schedulerd.wire.decode import RequestDecoder
from tests.rest.of_head import Translation
from tests.rest.world import World

Json = dict[str, Any]

BETWEEN_MS = 60
"""The recorder waited so long after each step."""

_ALLOCATION = re.compile(r"\$\{uuid:(.+)#(\d+)\}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Dump = Callable[[str], Awaitable[None]]
"""Called at each dump with its label."""


def read_story(path: Path) -> Json:
    story: Json = json.loads(path.read_text())
    return story


def read_answers(path: Path) -> list[Json]:
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def in_ids_of(played: Json, recorded: Json, answers: list[Json]) -> list[Json]:
    """The answers, with the UUIDs of the story that is played. The two stories have the same pods in the same order,
    whose UUIDs may be others in each run."""
    there, here = (dict.fromkeys(_UUID.findall(json.dumps(one))) for one in (recorded, played))
    if there == here or len(there) != len(here):
        return answers
    names = dict(zip(there, here, strict=True))
    text = _UUID.sub(lambda found: names.get(found[0], found[0]), json.dumps(answers))
    translated: list[Json] = json.loads(text)
    return translated


class Player:
    """Plays the steps of a story on a world."""

    def __init__(self, world: World, dump: Dump, *, of_head: bool = False) -> None:
        """`of_head`: the steps are in the words of the interface that head speaks."""
        self._world = world
        self._of_head = Translation() if of_head else None
        self._dump = dump
        self._decoder = RequestDecoder(world.clocks)
        self.refused: list[str] = []
        """Queue files that could not be loaded, with the reasons; the story goes on without them."""
        self._uuids: defaultdict[str, list[str]] = defaultdict(list)
        self._to_confirm: list[ReleaseRequested] = []
        self._seen: dict[str, set[str]] = {"nodes": set(), "accepted": set(), "rejected": set()}
        self._states: dict[str, str] = {}
        self._new_allocations = 0

    async def play(self, story: Json) -> None:
        for step in story["steps"]:
            await self._act(step)

    async def _act(self, step: Json) -> None:
        message = step.get("message", {})
        match step["op"]:
            case "register":
                self._unless_refused(self._register, message)
            case "node":
                self._report_nodes(message)
            case "application":
                application = ParseDict(message, si_pb2.ApplicationRequest(), ignore_unknown_fields=True)
                self._send(self._decoder.applications(application))
            case "allocation":
                self._allocate(json.loads(_ALLOCATION.sub(self._uuid, json.dumps(message))))
            case "config":
                self._unless_refused(self._configure, message)
            case "wait":
                self._wait(step["until"], step["ms"])
            case "sleep":
                self._hear(self._world.sleep(step["ms"] * MILLISECOND_NS))
            case "confirm":
                self._confirm(step)
            case "dump":
                await self._dump(step["label"])
            case other:
                raise ValueError(f"the step {other} is not known")
        if step["op"] not in ("dump", "sleep", "wait"):
            self._hear(self._world.sleep(BETWEEN_MS * MILLISECOND_NS))

    def _report_nodes(self, message: Json) -> None:
        request = ParseDict(message, si_pb2.NodeRequest(), ignore_unknown_fields=True)
        self._send(self._decoder.nodes(request))

    def _allocate(self, message: Json) -> None:
        if self._of_head is not None:
            existing = self._of_head.nodes(message)
            if existing is not None:
                self._report_nodes(existing)
            message = self._of_head.allocations(message)
        request = ParseDict(message, si_pb2.AllocationRequest(), ignore_unknown_fields=True)
        self._send(self._decoder.allocations(request))

    def pass_time(self, duration_ns: int) -> None:
        """Time passes without a step."""
        self._hear(self._world.sleep(duration_ns))

    def _unless_refused(self, act: Callable[[Json], None], message: Json) -> None:
        try:
            act(message)
        except QueueFileInvalid as error:
            self.refused.append(str(error))

    def _register(self, message: Json) -> None:
        request = ParseDict(message, si_pb2.RegisterResourceManagerRequest(), ignore_unknown_fields=True)
        self._hear(
            self._world.register(
                request.config,
                request.rmID,
                version=request.version,
                policy_group=request.policyGroup,
                build_info=dict(request.buildInfo),
                extra_config=dict(request.extraConfig),
            )
        )

    def _configure(self, message: Json) -> None:
        request = ParseDict(message, si_pb2.UpdateConfigurationRequest(), ignore_unknown_fields=True)
        read = load_queue_file(request.config)
        configuration = ConfigurationText(request.config, "config", read.checksum)
        extra = dict(request.extraConfig) or None
        command = UpdateConfiguration(request.rmID, read.partitions, configuration, extra_config=extra)
        self._hear(self._world.step(command))

    def _send(self, commands: Any) -> None:
        for command in commands:
            self._hear(self._world.step(command))

    def _uuid(self, match: re.Match[str]) -> str:
        known, index = self._uuids[match[1]], int(match[2])
        return known[index] if index < len(known) else f"unknown-{match[1]}-{index}"

    def _wait(self, until: Json, milliseconds: int) -> None:
        for _ in range(0, milliseconds, 50):
            if self._is_met(until):
                return
            self._hear(self._world.sleep(50 * MILLISECOND_NS))

    def _is_met(self, until: Json) -> bool:
        for kind, wanted in until.items():
            if kind == "states":
                if any(self._states.get(app) != state for app, state in wanted.items()):
                    return False
            elif kind == "newAllocs":
                if self._new_allocations < wanted:
                    return False
            elif not set(wanted) <= self._seen.get(kind, set()):
                return False
        return True

    def _confirm(self, step: Json) -> None:
        chosen = [
            fact
            for fact in self._to_confirm
            if fact.termination.name in (step["types"] or [fact.termination.name])
            and fact.allocation_key.startswith(step.get("keyPrefix", ""))
        ]
        for fact in chosen[: step.get("limit") or None]:
            self._to_confirm.remove(fact)
            release = AllocationRelease(
                fact.application_id,
                fact.partition,
                fact.uuid,
                fact.allocation_key,
                TerminationType[fact.termination.name],
            )
            self._hear(self._world.step(UpdateAllocations(fact.rm_id, releases=[release])))

    def _hear(self, facts: list[Fact]) -> None:
        for fact in facts:
            match fact:
                case NodeAccepted():
                    self._seen["nodes"].add(fact.node_id)
                case ApplicationAccepted():
                    self._seen["accepted"].add(fact.application_id)
                case ApplicationRejected():
                    self._seen["rejected"].add(fact.application_id)
                case ApplicationChanged():
                    self._states[fact.application_id] = ApplicationState(fact.state).value
                case Allocated(recovered=False):
                    self._uuids[fact.allocation_key].append(fact.uuid)
                    self._new_allocations += 1
                case ReleaseRequested():
                    self._to_confirm.append(fact)
