"""Whether the condition of every waiting pod says the same as `explain`, when nothing has changed for a while."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from schedulerd.config.queue_file import load_queue_file
from schedulerd.core.explain.causes import GangCause, InactiveCause, ReservedCause, RuleCause, StartOrderCause
from schedulerd.core.explain.rules.ask import explain_without_nodes
from schedulerd.core.explain.values import AskExplanation
from schedulerd.kubernetes.cluster.model import OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.objects.pod import PodCondition
from schedulerd.kubernetes.reasons.sentences import SKIPPED, UNSCHEDULABLE
from schedulerd.kubernetes.reasons.waiting import State
from schedulerd.observe.explain_sentences import rule_clause
from schedulerd.sentences.gangs import FULL, NOT_COMPLETE, forming, have_room, of_it, requeued
from schedulerd.sentences.preemption import kept
from schedulerd.sentences.quotas import NOT_NODES
from schedulerd.sentences.turns import ONLY_BEFORE
from schedulerd.sentences.words import sentence
from tests.kubernetes.cluster.core_daemon import RM_ID
from tests.kubernetes.cluster.core_world import CoreGangWorld, CoreWorld
from tests.kubernetes.cluster.play import own

QUIET_S = 15
"""So long nothing changes before the conditions are judged."""
REST_EVERY = 60
"""Turns of a history between two rests."""
PATIENCE_S = 90
"""A world that does not come to rest in this time is not judged."""
QUEUES = """
partitions:
  - name: default
    placementrules:
      - {name: provided, create: false}
      - {name: fixed, value: root.q}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: q}
          - {name: small, resources: {max: {vcore: 900m}}}
          - name: sure
            resources: {guaranteed: {vcore: 1500m}}
            properties: {preemption.delay: 5s}
          - name: shared
            limits: [{users: ["*"], maxresources: {vcore: 1200m}, maxapplications: 2}]
"""


class WaitingWorld(CoreWorld):
    """With pods of several sizes in queues with a quota, a guarantee and limits, so that they wait for all kinds of
    things."""

    partitions = load_queue_file(QUEUES).partitions

    def _user(self) -> None:
        if self.random.random() < 0.6:
            super()._user()
            return
        name, queue = f"p{next(self._names)}", self.random.choice(("q", "small", "sure", "shared"))
        labels = {"applicationId": f"{queue}-{self.random.choice('abc')}", "queue": f"root.{queue}"}
        self._put(own(name, cpu=f"{self.random.choice((100, 300, 600))}m", meta={"labels": labels}))


Said: TypeAlias = dict[str, list[tuple[str, object]]]
"""By uid of the pod: pending states and their causes."""


def explained(world: CoreWorld) -> dict[str, AskExplanation]:
    """What `explain` says of every ask of the daemon, by allocation key."""
    rm, partition = world.core.scheduler.cluster.resource_managers[RM_ID], world.core.partition
    return {
        ask.key: explain_without_nodes(rm, partition, application, ask, world.now_ns)
        for application in partition.applications.values()
        for ask in application.asks.values()
        if ask.pending
    }


def comes_to_rest(world: CoreWorld) -> bool:
    """Lets time pass until nothing was written, and `explain` said the same, for `QUIET_S`."""
    last: Said = {}
    quiet_s = 0
    for _ in range(PATIENCE_S):
        while world.move():
            quiet_s = 0
        said: Said = {key: [(one.state, one.cause) for one in found.waiting] for key, found in explained(world).items()}
        if said != last or len(world.cluster.model.reasons.backlog):
            last, quiet_s = said, 0
        if quiet_s >= QUIET_S:
            return True
        quiet_s += 1
        world._pass()
    return False


def disagreements(world: CoreWorld) -> Iterator[str]:
    """The pods whose condition says something else than `explain`."""
    found = explained(world)
    for uid, ours in world.cluster.model.pods.items():
        pod = world.pods.get(uid)
        explanation = found.get(uid)
        if pod is None or explanation is None or ours.state is not PodState.ASKED or pod.spec.node_name:
            continue
        if pod.metadata.deletion_timestamp:
            continue
        condition = next((one for one in pod.status.conditions or () if one.type == "PodScheduled"), None)
        if condition is None:
            yield f"{uid} has no condition, and waits: {explanation.waiting}"
        elif (why := _difference(world, ours, condition, explanation)) is not None:
            yield f"{uid}: {condition.reason}: {condition.message!r}, {why}: {explanation.waiting}"


def _difference(world: CoreWorld, pod: OwnPod, condition: PodCondition, found: AskExplanation) -> str | None:
    message, nodes = condition.message or "", len(world.cluster.model.nodes.known)
    if pod.reason.shared is not None or (pod.reason.waiting is not None and pod.reason.waiting.state is State.HELD):
        return None  # what its whole gang waits for, or what the shim alone knows
    if message.startswith("0/") and not message.startswith(f"0/{nodes} "):
        return f"but there are {nodes} nodes"
    rules = [one.cause for one in found.waiting if isinstance(one.cause, RuleCause)] + found.also_blocked_by
    sentences = [rule_clause(one) for one in rules]
    if any(one.lower() in message.lower() for one in sentences):
        return None
    if message.endswith(f"{NOT_NODES}."):
        return f"but the rules that block are {sentences}"
    kinds = {one.state for one in found.waiting}
    if condition.reason == UNSCHEDULABLE:
        if not kinds & {"unschedulable", "predicate_failed", "reserved"}:
            return f"but it is {kinds}"
    elif condition.reason == SKIPPED and kinds <= {"unschedulable", "predicate_failed"}:
        return None if ONLY_BEFORE.lower() in message.lower() else f"but it is {kinds}"
    if condition.reason not in {one.pod_reason for one in found.waiting}:
        return f"but explain says {[one.pod_reason for one in found.waiting]}"
    for one in found.waiting:
        match one.cause:
            case ReservedCause(node_id=node):
                victims = sum(len(each.victims) for each in found.reservations)
                if kept(node, victims=victims) not in message:
                    return f"but {node} is kept for it, {victims} victims"
            case RuleCause():
                return f"but the rules that block are {sentences}"
            case GangCause(own=False, application_id=name) if name not in message:
                return f"but it waits for the gang of {name}"
            case GangCause(own=True) if condition.reason == SKIPPED and sentence(_of_gang(one.cause)) != message:
                return "but it waits for its gang"
            case StartOrderCause(application_id=name) if not (name in message and "has to start first" in message):
                return f"but {name} has to start first"
            case InactiveCause(state=state) if state not in message:
                return f"but {state} is inactive"
    if "is kept for it" in message and "reserved" not in kinds:
        return "but no room is kept"
    if "in queue" in message and "ahead" not in message and kinds != {"ready"}:
        return f"but it is {kinds}"
    return None


def _of_gang(cause: GangCause) -> str:
    match cause.gang_state:
        case "forming" if cause.is_requeued:
            return of_it(requeued(""))
        case "forming":
            return of_it(forming(cause.asked, cause.wanted))
        case "gathering":
            return of_it(have_room(cause.placed, cause.wanted))
        case "complete":
            return FULL
    return NOT_COMPLETE


def play(world: CoreWorld, turns: int = 400) -> tuple[int, list[str]]:
    """How many pods waited when the world had come to rest, and what the first disagreement was."""
    judged = 0
    world.start()
    for turn in range(1, turns + 1):
        world.turn()
        if turn % REST_EVERY == 0 and comes_to_rest(world):
            judged += len(explained(world))
            found = list(disagreements(world))
            if found:
                return judged, [f"turn {turn}: {one}" for one in found]
    return judged, []


def check(seed: int) -> None:
    """As a world of `tests.kubernetes.seeds`."""
    for world in (WaitingWorld(seed), CoreGangWorld(seed)):
        _, found = play(world)
        assert not found, found[0]
