"""What each request does to the store."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.fake.admission import admit_changed, admit_new, check_identity
from tests.kubernetes.fake.failures import Failure, already_exists, conflict, not_found
from tests.kubernetes.fake.kinds import BUILT_IN, Kind
from tests.kubernetes.fake.merge import json_merge, strategic_merge
from tests.kubernetes.fake.store import Object, Store

TERMINAL = ("Succeeded", "Failed")
KINDS = {str(kind.resource): kind for kind in BUILT_IN}
PODS, NAMESPACES, PRIORITY_CLASSES = (KINDS[str(one)] for one in (r.PODS, r.NAMESPACES, r.PRIORITY_CLASSES))


class Operations:
    """`wall_s` gives seconds since the epoch. With `checks_binding_uid` it is a server of today, else one of 1.20."""

    def __init__(self, store: Store, wall_s: Callable[[], float]) -> None:
        self.store = store
        self.checks_binding_uid = False
        self.is_killed_deleting = False
        """Deletions of pods stop between their two writes."""
        self._wall_s = wall_s
        self._uids = 0

    def now(self) -> str:
        return datetime.fromtimestamp(self._wall_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        found = self.store.get(kind, namespace, name)
        if found is None:
            raise not_found(kind.plural, name, kind.group)
        return found

    def create(self, kind: Kind, namespace: str, body: Object) -> Object:
        thing = copy.deepcopy(body)
        metadata = thing.setdefault("metadata", {})
        if kind.resource.namespaced:
            if metadata.setdefault("namespace", namespace) != namespace:
                raise Failure(
                    400, "the namespace of the provided object does not match the namespace sent on the request"
                )
        else:
            metadata.pop("namespace", None)
        if metadata.get("resourceVersion"):
            raise Failure(500, "resourceVersion should not be set on objects to be created", "InternalError")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self._uids:05x}"
        self._check_namespace(kind, namespace, metadata.get("name", ""))
        admit_new(kind, thing, self.store.of(PRIORITY_CLASSES))
        if self.store.get(kind, metadata.get("namespace", ""), metadata["name"]) is not None:
            raise already_exists(kind.plural, metadata["name"], kind.group)
        self._uids += 1
        metadata["uid"] = f"00000000-0000-4000-8000-{self._uids:012x}"
        metadata["creationTimestamp"] = self.now()
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(key, None)
        thing["apiVersion"], thing["kind"] = kind.resource.api_version, kind.resource.kind
        return self.store.put(kind, thing)

    def replace(self, kind: Kind, namespace: str, name: str, body: Object, subresource: str) -> Object:
        before = self.get(kind, namespace, name)
        check_identity(kind, before, body.get("metadata") or {}, must_have_version=True)
        return self._update(kind, before, copy.deepcopy(body), subresource)

    def patch(
        self, kind: Kind, namespace: str, name: str, patch: Object, subresource: str, content_type: str
    ) -> Object:
        before = self.get(kind, namespace, name)
        if content_type == "application/strategic-merge-patch+json" and not kind.is_custom:
            after = strategic_merge(before, patch)
        elif content_type == "application/merge-patch+json":
            after = json_merge(before, patch)
        else:
            raise Failure(415, f"the body of the request was in an unknown format - {content_type}")
        check_identity(kind, before, patch.get("metadata") or {}, must_have_version=False)
        return self._update(kind, before, after, subresource)

    def bind(self, namespace: str, name: str, binding: Object) -> Object:
        pod = self.get(PODS, namespace, name)
        metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
        if not target.get("name"):
            raise Failure(500, "target.name: Required value")
        if self.checks_binding_uid and metadata.get("uid") not in (None, "", pod["metadata"]["uid"]):
            there = pod["metadata"]["uid"]
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {there}"
            raise conflict("pods/binding", name, why)
        if "deletionTimestamp" in pod["metadata"]:
            raise conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        if pod["spec"].get("nodeName"):
            raise conflict("pods/binding", name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
        if pod["spec"].get("schedulingGates"):
            raise conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
        pod = copy.deepcopy(pod)
        pod["spec"]["nodeName"] = target["name"]
        pod["metadata"].setdefault("annotations", {}).update(metadata.get("annotations") or {})
        condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": self.now()}
        kept = [one for one in pod["status"].get("conditions") or () if one["type"] != "PodScheduled"]
        pod["status"]["conditions"] = [*kept, condition]
        self.store.put(PODS, pod)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def delete(self, kind: Kind, namespace: str, name: str, options: Object) -> Object:
        before = self.get(kind, namespace, name)
        wanted = options.get("preconditions") or {}
        for field, key in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
            there = before["metadata"][key]
            if wanted.get(key) not in (None, there):
                why = f"the {field} in the precondition ({wanted[key]}) does not match the {field} in record ({there})."
                raise conflict(kind.resource.kind, name, why)
        grace_s = self._grace_s(kind, before, options.get("gracePeriodSeconds"))
        stays = grace_s > 0 or bool(before["metadata"].get("finalizers")) or kind is NAMESPACES
        if kind is PODS or stays:
            before = self._mark_deleted(kind, before, grace_s)
        if stays or (kind is PODS and self.is_killed_deleting):
            return before
        last = self.store.remove(kind, (namespace, name))
        return last if kind is PODS else _success(last)

    def _mark_deleted(self, kind: Kind, before: Object, grace_s: int) -> Object:
        old_s = before["metadata"].get("deletionGracePeriodSeconds", 0)
        if "deletionTimestamp" in before["metadata"] and old_s <= grace_s:
            return before
        thing = copy.deepcopy(before)
        metadata = thing["metadata"]
        due = datetime.fromtimestamp(self._wall_s() + grace_s, UTC)
        metadata["deletionTimestamp"] = due.strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata["deletionGracePeriodSeconds"] = grace_s
        if kind is NAMESPACES:
            thing["status"] = {**thing.get("status", {}), "phase": "Terminating"}
        return self.store.put(kind, thing)

    def collect_garbage(self) -> list[tuple[str, str, str]]:
        """Deletes objects all of whose owners are gone, as the controller manager does; what was deleted."""
        deleted: list[tuple[str, str, str]] = []
        while True:
            things = [(kind, key, thing) for kind in KINDS.values() for key, thing in self.store.of(kind).items()]
            uids = {thing["metadata"]["uid"] for _, _, thing in things}
            orphans = [
                (kind, key)
                for kind, key, thing in things
                if (owners := thing["metadata"].get("ownerReferences"))
                and "deletionTimestamp" not in thing["metadata"]
                and not any(owner["uid"] in uids for owner in owners)
            ]
            if not orphans:
                return deleted
            for kind, (namespace, name) in orphans:
                self.delete(kind, namespace, name, {})
                deleted.append((kind.plural, namespace, name))

    def finish_namespaces(self) -> None:
        """Removes namespaces that are being deleted, with what is in them, as the controller manager does."""
        for (_, name), thing in list(self.store.of(NAMESPACES).items()):
            if "deletionTimestamp" in thing["metadata"]:
                for kind in KINDS.values():
                    for key in [key for key in self.store.of(kind) if key[0] == name]:
                        self.store.remove(kind, key)
                self.store.remove(NAMESPACES, ("", name))

    def _update(self, kind: Kind, before: Object, after: Object, subresource: str) -> Object:
        old = before["metadata"]
        # A patch of something else leaves the metadata of the former object, whose version would change with it.
        metadata: dict[str, Any] = dict(after.get("metadata") or {})
        after["metadata"] = metadata
        for key in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
            if key in old:
                metadata[key] = old[key]
            else:
                metadata.pop(key, None)
        after["apiVersion"], after["kind"] = before["apiVersion"], before["kind"]
        if subresource == "status":
            rest = {key: copy.deepcopy(value) for key, value in before.items() if key not in ("metadata", "status")}
            after = {**rest, "metadata": metadata, "status": after.get("status", {})}
        elif kind.has_status:
            after["status"] = copy.deepcopy(before.get("status", {}))
        admit_changed(kind, before, after)
        after["metadata"]["resourceVersion"] = old["resourceVersion"]
        if after == before:  # nothing happens, and nobody is told
            return before
        changed = self.store.put(kind, after)
        if "deletionTimestamp" in old and not changed["metadata"].get("finalizers") and old.get("finalizers"):
            return self.store.remove(kind, (old.get("namespace", ""), old["name"]))
        return changed

    def _grace_s(self, kind: Kind, thing: Object, wanted: int | None) -> int:
        if kind is not PODS:
            return 0
        has_ended = (thing.get("status") or {}).get("phase") in TERMINAL
        if not thing["spec"].get("nodeName") or has_ended:
            return 0
        return int(thing["spec"].get("terminationGracePeriodSeconds", 30)) if wanted is None else wanted

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        if not kind.resource.namespaced:
            return
        found = self.store.get(NAMESPACES, "", namespace)
        if found is None:
            raise not_found("namespaces", namespace)
        if "deletionTimestamp" in found["metadata"]:
            text = f"unable to create new content in namespace {namespace} because it is being terminated"
            qualified = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            details = {"name": name, "kind": kind.plural, "causes": [cause]}
            raise Failure(403, f'{qualified} "{name}" is forbidden: {text}', details=details)


def _success(last: Object) -> Object:
    details = {"name": last["metadata"]["name"], "uid": last["metadata"]["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
