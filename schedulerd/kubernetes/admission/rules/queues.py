"""The ConfigMap with the queue files: which of its keys are read, and what is said about them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schedulerd.kubernetes.admission.rules.review import AdmissionRequest, Decision
from schedulerd.kubernetes.admission.rules.workloads import CONFIG_MAPS

QUEUE_FILE = ".yaml"
DEFAULT_POLICY_GROUP = "queues"
FILES_MAX = 20
"""Queue files of one ConfigMap that are validated."""
PROBLEMS_MAX = 10
"""That a refusal lists."""
BREAK_GLASS_LABEL = "schedulerd.io/break-glass"
QUEUE_FILES_LABEL = "schedulerd.io/queue-files"
"""By which the API server knows that it has to ask about a ConfigMap."""


@dataclass(frozen=True, slots=True)
class QueueRules:
    namespace: str
    config_map: str
    """Its name."""
    policy_group: str
    """Whose file the cluster's shim uses; empty: `queues`."""

    def concerns(self, request: AdmissionRequest) -> bool:
        """Whether the request changes queue files, or whether they are validated."""
        if request.operation not in ("CREATE", "UPDATE") or request.sub_resource or request.object is None:
            return False
        if (request.resource.group, request.resource.resource) != CONFIG_MAPS:
            return False
        if (request.namespace, request.name or _name(request)) != (self.namespace, self.config_map):
            return False
        old = request.old_object
        if old is None or any(old.get(key) != request.object.get(key) for key in ("data", "binaryData")):
            return True
        before, after = _labels(old), _labels(request.object)
        is_set = after.get(BREAK_GLASS_LABEL) == "true" != before.get(BREAK_GLASS_LABEL)
        return is_set or leaves_validation(request)

    @property
    def file_in_use(self) -> str:
        """The key of the queue file by which the cluster is scheduled."""
        return f"{self.policy_group or DEFAULT_POLICY_GROUP}{QUEUE_FILE}"


@dataclass(frozen=True, slots=True)
class QueueFileResult:
    """What the reader of queue files has to say about one of them."""

    key: str
    problems: Sequence[str] = ()
    """What is wrong; none if the file is valid."""
    warnings: Sequence[str] = ()


def breaks_glass(request: AdmissionRequest) -> bool:
    """Whether the ConfigMap asks for not being validated."""
    return _labels(request.object).get(BREAK_GLASS_LABEL) == "true"


def leaves_validation(request: AdmissionRequest) -> bool:
    """Whether the API server will not ask about the ConfigMap any more."""
    before, after = _labels(request.old_object), _labels(request.object)
    return before.get(QUEUE_FILES_LABEL) == "true" != after.get(QUEUE_FILES_LABEL)


def queue_files(request: AdmissionRequest) -> dict[str, str | None]:
    """Texts by their keys; None for a text that is not UTF-8."""
    document = request.object or {}
    files: dict[str, str | None] = {}
    for field, decode in (("data", _plain), ("binaryData", _decoded)):
        values = document.get(field)
        for key, value in (values if isinstance(values, dict) else {}).items():
            if key.endswith(QUEUE_FILE):
                files[key] = decode(value)
    return files


def decide(rules: QueueRules, request: AdmissionRequest, results: Sequence[QueueFileResult]) -> Decision:
    """`results` are those of all `queue_files`."""
    warnings = [f"{result.key}: {warning}" for result in results for warning in result.warnings]
    problems = [f"{result.key}: {problem}" for result in results for problem in result.problems]
    if problems:
        shown = problems[:PROBLEMS_MAX]
        if len(problems) > PROBLEMS_MAX:
            shown.append(f"and {len(problems) - PROBLEMS_MAX} more")
        return Decision(
            "\n".join(
                [f"the queue file is not valid ({len(problems)} problem{'s' if len(problems) > 1 else ''})", *shown]
            ),
            (),
            tuple(warnings),
        )
    if rules.file_in_use not in {result.key for result in results}:
        warnings.insert(
            0, f"there is no {rules.file_in_use}, the queue file of this cluster: the last one stays in effect"
        )
    document = request.object or {}
    for key in sorted({*(document.get("data") or {}), *(document.get("binaryData") or {})}):
        if key.endswith(f"{QUEUE_FILE}.gz"):
            warnings.append(f"{key} is not read: queue files must not be compressed")
    return Decision(warnings=tuple(warnings))


def _labels(document: dict[str, Any] | None) -> dict[str, Any]:
    return ((document or {}).get("metadata") or {}).get("labels") or {}


def _name(request: AdmissionRequest) -> str:
    metadata = (request.object or {}).get("metadata") or {}
    return str(metadata.get("name") or "")


def _plain(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _decoded(value: object) -> str | None:
    try:
        return base64.b64decode(value, validate=True).decode() if isinstance(value, str) else None
    except (binascii.Error, UnicodeDecodeError):
        return None
