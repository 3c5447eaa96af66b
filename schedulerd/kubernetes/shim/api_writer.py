"""Carries out the effects that are writes to the API server, and tells the cluster how binds and deletes ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from schedulerd.kubernetes.api import Outcome, Recorder, Result, WritePool
from schedulerd.kubernetes.api.resources import PODS, Resource
from schedulerd.kubernetes.api.writes import Bind as BindWrite
from schedulerd.kubernetes.api.writes import Create, Delete, Patch, Reference
from schedulerd.kubernetes.api.writes.patching import patch_key
from schedulerd.kubernetes.cluster.conditions import POD_SCHEDULED
from schedulerd.kubernetes.cluster.effects import (
    Bind,
    BindVolume,
    CreatePod,
    DeletePod,
    Effect,
    FailPod,
    PatchGroupCondition,
    PatchPodCondition,
    RecordEvent,
    SelectNode,
)
from schedulerd.kubernetes.cluster.events import (
    BindEnded,
    BindResult,
    ConditionLost,
    CreateEnded,
    CreateResult,
    DeleteEnded,
    Event,
    FailEnded,
)
from schedulerd.kubernetes.objects.decode import MalformedObject, decode
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.shim.volume_writer import VolumeWriter

_BIND_RESULTS = {
    Result.DONE: BindResult.DONE,
    Result.GONE: BindResult.GONE,
    Result.CONFLICT: BindResult.ELSEWHERE,
    Result.REFUSED: BindResult.FAILED,
    Result.FAILED: BindResult.FAILED,
}
"""All others are UNKNOWN: the binding may be there, or has not left yet."""
_CREATE_RESULTS = {
    Result.DONE: CreateResult.DONE,
    Result.EXISTS: CreateResult.EXISTS,
    Result.REFUSED: CreateResult.REFUSED,
}
"""All others are FAILED; a pod that is there all the same is found by the next creation."""
_WRITTEN_OR_GONE = (Result.DONE, Result.GONE)
_OVER = (Result.CLOSED, Result.NOT_LEADER)
"""This process is about to end: nothing is to be done about it."""
CONDITION_SECONDS_MAX = 3.0
"""How long a deletion waits for a condition of its pod."""


class ApiWriter:
    def __init__(self, pool: WritePool, recorder: Recorder, handle: Callable[[list[Event]], None]) -> None:
        self._pool = pool
        self._recorder = recorder
        self._handle = handle
        self._ended: list[Event] = []
        """Ends of writes that came in this turn of the loop: the cluster is told of them together."""
        self._volumes = VolumeWriter(pool, handle)
        self.performers: dict[type[Effect], Callable[[Any], None]] = {
            Bind: self._bind,
            BindVolume: self._volumes.bind,
            SelectNode: self._volumes.select_node,
            DeletePod: self._delete,
            CreatePod: self._create,
            FailPod: self._fail,
            PatchPodCondition: self._patch,
            PatchGroupCondition: self._patch_group,
            RecordEvent: self._record,
        }
        self.pod_groups: Resource | None = None
        """PodGroups of Kubernetes, in the version that the server has."""
        self._patches: dict[str, asyncio.Future[Outcome]] = {}
        """By uid of a pod: the last patch that is under way."""

    def _record(self, effect: RecordEvent) -> None:
        about = effect.regarding
        self._recorder.record(
            Reference(about.kind, about.name, about.uid, about.namespace, about.api_version),
            effect.reason,
            effect.action,
            effect.note,
            is_warning=effect.is_warning,
            happens_once=effect.happens_once,
        )

    def _bind(self, effect: Bind) -> None:
        """A binding makes PodScheduled true, so a condition that says why the pod waits must not come after it."""
        key = patch_key(PODS, effect.pod.namespace, effect.pod.name, part=POD_SCHEDULED)
        under_way = self._pool.withdraw(key)
        if under_way is not None:
            under_way.add_done_callback(lambda _: self._bind_now(effect))
        else:
            self._bind_now(effect)

    def _bind_now(self, effect: Bind) -> None:
        pod = effect.pod

        def ended(done: asyncio.Future[Outcome]) -> None:
            outcome = done.result()
            if outcome.result in _OVER:
                return
            result = _BIND_RESULTS.get(outcome.result, BindResult.UNKNOWN)
            self._tell_soon(BindEnded(pod.uid, effect.node, result, outcome.message, outcome.node))

        write = BindWrite(pod.namespace, pod.name, pod.uid, effect.node, effect.annotations)
        self._pool.submit(write).add_done_callback(ended)

    def _tell_soon(self, event: Event) -> None:
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._tell_ended)
        self._ended.append(event)

    def _tell_ended(self) -> None:
        ended, self._ended = self._ended, []
        self._handle(ended)

    def _delete(self, effect: DeletePod) -> None:
        """A condition that says why leaves before. It is less urgent than the deletion, so that the API server may push
        it back for long, and the room is waited for: after a few seconds the pod is deleted all the same."""
        patch = self._patches.get(effect.pod.uid)
        if patch is None:
            self._delete_now(effect)
            return

        def delete(_: object = None) -> None:
            timer.cancel()
            patch.remove_done_callback(delete)
            self._delete_now(effect)

        timer = patch.get_loop().call_later(CONDITION_SECONDS_MAX, delete)
        patch.add_done_callback(delete)

    def _delete_now(self, effect: DeletePod) -> None:
        pod = effect.pod

        def ended(done: asyncio.Future[Outcome]) -> None:
            outcome = done.result()
            if outcome.result not in _OVER:
                is_done = outcome.result in (Result.DONE, Result.GONE)
                self._handle([DeleteEnded(pod.uid, is_done, outcome.message)])

        self._pool.submit(Delete(PODS, pod.namespace, pod.name, pod.uid)).add_done_callback(ended)

    def _create(self, effect: CreatePod) -> None:
        def ended(done: asyncio.Future[Outcome]) -> None:
            outcome = done.result()
            if outcome.result in _OVER:
                return
            result, message, pod = _CREATE_RESULTS.get(outcome.result, CreateResult.FAILED), outcome.message, None
            if result is CreateResult.EXISTS:
                try:
                    pod = decode(Pod, outcome.object)
                except MalformedObject as error:
                    message = f"it exists and cannot be read: {error}"
            self._handle([CreateEnded(effect.application_id, effect.name, result, message, pod)])

        body = msgspec.json.encode(effect.body)
        self._pool.submit(Create(PODS, effect.namespace, effect.name, body)).add_done_callback(ended)

    def _fail(self, effect: FailPod) -> None:
        pod = effect.pod

        def ended(done: asyncio.Future[Outcome]) -> None:
            outcome = done.result()
            if outcome.result not in _OVER:
                self._tell_soon(FailEnded(pod.uid, outcome.result in _WRITTEN_OR_GONE, outcome.message))

        status = {"phase": "Failed", "reason": effect.reason, "message": effect.message}
        patch = Patch(PODS, pod.namespace, pod.name, pod.uid, {"status": status}, part="phase")
        self._pool.submit(patch).add_done_callback(ended)

    def _patch(self, effect: PatchPodCondition) -> None:
        pod = effect.pod
        condition = {
            "type": effect.type,
            "status": "True" if effect.is_true else "False",
            "reason": effect.reason,
            "message": effect.message,
        }
        if effect.is_transition:
            since_s = min(effect.since_ns / 1e9, time.time()) if effect.since_ns else time.time()
            condition["lastTransitionTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since_s))
        patch = {"status": {"conditions": [condition]}}
        done = self._pool.submit(Patch(PODS, pod.namespace, pod.name, pod.uid, patch, part=effect.type))
        self._patches[pod.uid] = done

        def ended(done: asyncio.Future[Outcome]) -> None:
            if self._patches.get(pod.uid) is done:
                del self._patches[pod.uid]
            if done.result().result not in (*_WRITTEN_OR_GONE, *_OVER):
                self._tell_soon(ConditionLost(pod.uid, effect.type, effect.reason, effect.message))

        done.add_done_callback(ended)

    def _patch_group(self, effect: PatchGroupCondition) -> None:
        """Nothing depends on it: if it is not written, the next one may be."""
        if self.pod_groups is None:
            return
        since = time.gmtime(min(effect.since_ns / 1e9, time.time()))
        condition = {
            "type": "PodGroupScheduled",
            "status": "True" if effect.is_true else "False",
            "reason": effect.reason,
            "message": effect.message,
            "observedGeneration": effect.generation,
            "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", since),
        }
        group, patch = effect.group, {"status": {"conditions": [condition]}}
        self._pool.submit(Patch(self.pod_groups, group.namespace, group.name, group.uid, patch))
