"""Pods and pod templates: scheduler name, application id and user, and whether the user is forged.

| | CREATE | UPDATE |
|---|---|---|
| pod | scheduler name, application id, user | nothing; the user must not change |
| pod template | user | user, if the template changes anyway: a patch of it would be rolled out |

Requests for some subresources change the metadata of a living pod too (`POD_CHANGES`): its status is updated with the
annotations of the object that is sent, and a Binding gives its own annotations to the pod. The user must not change.

`mutate` and `check_users` refuse the same things. The latter is for a webhook of its own, which may be set to refuse
everything while it is down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedulerd.kubernetes.admission.rules import users
from schedulerd.kubernetes.admission.rules.json_patch import JsonPatch
from schedulerd.kubernetes.admission.rules.namespaces import NamespaceRules
from schedulerd.kubernetes.admission.rules.review import ALLOWED, AdmissionRequest, Decision
from schedulerd.kubernetes.admission.rules.users import TrustedUsers
from schedulerd.kubernetes.admission.rules.workloads import (
    BINDINGS,
    POD_TEMPLATES_MAX,
    PODS,
    PodTemplate,
    Workload,
    pod_templates,
)
from schedulerd.kubernetes.metadata.gangs import COSCHEDULING_LABELS
from schedulerd.kubernetes.metadata.names import APP_ID, APP_ID_LABELS, OWN_PREFIX, PREFIXES
from schedulerd.kubernetes.metadata.pods import UNIQUE_SUFFIX, default_application_ids
from schedulerd.kubernetes.objects.meta import ObjectMeta
from schedulerd.settings.problems import shorten

DEFAULT_SCHEDULER = "default-scheduler"
APP_ID_LABEL = OWN_PREFIX + APP_ID
_NAMESPACE_IN_ID_MAX = 26
_APP_ID_KEYS = tuple(prefix + APP_ID for prefix in PREFIXES)
POD_CHANGES = frozenset(
    {(*PODS, "status", "UPDATE"), (*PODS, "binding", "CREATE"), (*BINDINGS, "", "CREATE"), (*PODS, "", "UPDATE")}
)
"""Group, resource, subresource and operation of requests that change the metadata of a living pod."""
_SCHEDULING_GROUPS = ("schedulingGroup", "workloadRef")

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodRules:
    scheduler_names: tuple[str, ...]
    """The first is given to pods; the others are the scheduler's too."""
    unique_app_ids: bool
    """Pods without an application id get one each, not one for their namespace."""
    namespaces: NamespaceRules
    trusted: TrustedUsers
    workloads: Mapping[tuple[str, str], Workload]
    """By group and resource."""

    def concerns(self, request: AdmissionRequest) -> bool:
        """Whether the rules say anything about the request at all."""
        if request.operation not in ("CREATE", "UPDATE") or request.object is None:
            return False
        if self.namespaces.is_excluded(request.namespace):
            return False
        # The shim makes placeholders for the users of gangs.
        account = users.service_account(request.user_info)
        if account is not None and account[0] == self.namespaces.own:
            return False
        kind = (request.resource.group, request.resource.resource)
        return _changes_pod(request) or (not request.sub_resource and (kind == PODS or kind in self.workloads))


def check_users(rules: PodRules, request: AdmissionRequest) -> Decision:
    """Refuses pods and pod templates with a user that whoever sent the request may not write."""
    if not rules.concerns(request) or rules.trusted.trusts(request.user_info):
        return ALLOWED
    assert request.object is not None
    workload = rules.workloads.get((request.resource.group, request.resource.resource))
    if workload is None:
        return _check_pod(request, request.object)
    templates = pod_templates(workload, request.object)
    if templates is None:
        return Decision(f"the object has more than {POD_TEMPLATES_MAX} pod templates, which is the most that is read")
    before = _before(workload, request)
    for template in templates:
        old = before.get(template.identity)
        keys = [*users.forged(template.annotations, old.annotations if old else {}, request.user_info)]
        if keys:
            return Decision(users.refusal(keys, request.user_info, ".".join(map(str, template.annotations_path))))
        if template.unread and template.unread != (old.unread if old else ""):
            where = ".".join(map(str, template.annotations_path))
            return Decision(
                f"{where}: {shorten(template.unread)!r} leads to a pod template that cannot be checked for forged "
                "users; write the template into the object, or let an administrator trust this account"
            )
    return ALLOWED


def mutate(rules: PodRules, request: AdmissionRequest, namespace: ObjectMeta | None) -> Decision:
    """`namespace` is the metadata of the request's namespace, None if it is not known."""
    refused = check_users(rules, request)
    if not refused.is_allowed or not rules.concerns(request) or _changes_pod(request):
        return refused
    assert request.object is not None
    patch = JsonPatch(request.object)
    is_processed = rules.namespaces.is_processed(request.namespace, namespace)
    workload = rules.workloads.get((request.resource.group, request.resource.resource))
    if workload is not None:
        warning = _mutate_templates(rules, request, workload, patch, is_processed=is_processed)
    else:
        labels_it = rules.namespaces.is_labelled(request.namespace, namespace)
        warning = _mutate_pod(rules, request, patch, is_processed=is_processed, labels_it=labels_it)
    return Decision(patch=tuple(patch.operations), warnings=(warning,) if warning else ())


def _changes_pod(request: AdmissionRequest) -> bool:
    asked = request.resource
    return (asked.group, asked.resource, request.sub_resource, request.operation) in POD_CHANGES


def _check_pod(request: AdmissionRequest, pod: JSON) -> Decision:
    new, old = _annotations(pod), _annotations(request.old_object or {})
    keys = [*users.forged(new, old, request.user_info)]
    if keys:
        return Decision(users.refusal(keys, request.user_info, "metadata.annotations"))
    if _changes_pod(request) and users.said(new) != users.said(old):
        changed = sorted(key for key in users.READ if new.get(key) != old.get(key))
        return Decision(f"annotation {', '.join(changed)} of a pod cannot be changed; delete the pod and make it again")
    return ALLOWED


def _mutate_pod(
    rules: PodRules, request: AdmissionRequest, patch: JsonPatch, *, is_processed: bool, labels_it: bool
) -> str:
    """Returns a warning, or an empty text."""
    assert request.object is not None
    pod, spec = request.object, _object(request.object, "spec")
    if spec.get("nodeName"):
        return ""  # it is where it is; static pods of a kubelet come like that
    name = spec.get("schedulerName") or DEFAULT_SCHEDULER
    if name not in rules.scheduler_names:
        if not is_processed or name != DEFAULT_SCHEDULER:
            return ""
        patch.set(("spec", "schedulerName"), rules.scheduler_names[0])
    if labels_it and not _has_application(pod):
        patch.set(("metadata", "labels", APP_ID_LABEL), _application_id(request.namespace, rules.unique_app_ids))
    if users.said(_annotations(pod)) or rules.trusted.trusts(request.user_info):
        return ""
    value, warning = users.value_of(request.user_info)
    patch.set(("metadata", "annotations", users.WRITTEN), value)
    return warning


def _mutate_templates(
    rules: PodRules, request: AdmissionRequest, workload: Workload, patch: JsonPatch, *, is_processed: bool
) -> str:
    """Returns a warning, or an empty text."""
    assert request.object is not None
    if rules.trusted.trusts(request.user_info):
        return ""
    before = _before(workload, request)
    value, warning = users.value_of(request.user_info)
    changed = False
    for template in pod_templates(workload, request.object) or ():
        if users.said(template.annotations) or not template.is_usable:
            continue
        name = template.scheduler_name or DEFAULT_SCHEDULER
        if name not in rules.scheduler_names and not (is_processed and name == DEFAULT_SCHEDULER):
            continue
        old = before.get(template.identity)
        owners = users.said(old.annotations) if old else {}
        if owners:  # it was left out by somebody who sends the object as it was written once
            for key, owner in owners.items():
                patch.set((*template.annotations_path, key), str(owner))
        elif old is None or old.content != template.content:
            patch.set((*template.annotations_path, users.WRITTEN), value)
            changed = True
    return warning if changed else ""


def _before(workload: Workload, request: AdmissionRequest) -> dict[tuple[str, ...], PodTemplate]:
    if request.operation != "UPDATE" or request.old_object is None:
        return {}
    return {template.identity: template for template in pod_templates(workload, request.old_object) or ()}


def _has_application(pod: JSON) -> bool:
    """Whether the pod says to which application it belongs, or its gang does."""
    metadata, spec = _object(pod, "metadata"), _object(pod, "spec")
    labels, annotations = _object(metadata, "labels"), _object(metadata, "annotations")
    named = any(labels.get(key) for key in (*_APP_ID_KEYS, *APP_ID_LABELS, *COSCHEDULING_LABELS))
    return named or any(map(annotations.get, _APP_ID_KEYS)) or any(map(spec.get, _SCHEDULING_GROUPS))


def _application_id(namespace: str, unique: bool) -> str:
    if unique:
        return f"{namespace[:_NAMESPACE_IN_ID_MAX]}{UNIQUE_SUFFIX}"
    return default_application_ids(namespace)[1]


def _annotations(pod: JSON) -> JSON:
    return _object(_object(pod, "metadata"), "annotations")


def _object(parent: JSON, key: str) -> JSON:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}
