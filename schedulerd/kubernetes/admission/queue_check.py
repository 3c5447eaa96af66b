"""Validates the queue files of a ConfigMap, and asks the daemon what they would change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from schedulerd.kubernetes.admission.break_glass import GROUP, RESOURCE, VERB
from schedulerd.kubernetes.admission.impact import Impact, ImpactUnknown
from schedulerd.kubernetes.admission.metrics import AdmissionMetrics
from schedulerd.kubernetes.admission.rules.queues import (
    BREAK_GLASS_LABEL,
    FILES_MAX,
    QUEUE_FILES_LABEL,
    QueueFileResult,
    QueueRules,
    breaks_glass,
    decide,
    leaves_validation,
    queue_files,
)
from schedulerd.kubernetes.admission.rules.review import ALLOWED, AdmissionRequest, Decision, UserInfo
from schedulerd.kubernetes.api import ApiError

VALIDATION_SECONDS = 5.0
"""For all files of a ConfigMap together."""

_NOT_VALIDATED = f"not validated: this took longer than {VALIDATION_SECONDS:g} s; an invalid file changes nothing"

ReadQueueFile = Callable[[str, str], Awaitable[QueueFileResult]]
"""Validates a text, given with its key. May take long: it is cancelled then."""
AskImpact = Callable[[str], Awaitable[Impact]]
"""What a text would change. Raises ImpactUnknown, and is bounded in time."""
MayBreakGlass = Callable[[UserInfo, str, str], Awaitable[bool]]
"""Whether a user may skip the validation of a ConfigMap: namespace and name. Raises `ApiError`."""


class QueueCheck:
    """Decides about requests for the ConfigMap."""

    def __init__(
        self,
        rules: QueueRules,
        read: ReadQueueFile,
        ask_impact: AskImpact,
        may_break_glass: MayBreakGlass,
        metrics: AdmissionMetrics,
    ) -> None:
        self._rules = rules
        self._read = read
        self._ask_impact = ask_impact
        self._may_break_glass = may_break_glass
        self._metrics = metrics

    async def decide(self, request: AdmissionRequest) -> Decision:
        if not self._rules.concerns(request):
            return ALLOWED
        for label, is_asked in ((BREAK_GLASS_LABEL, breaks_glass), (QUEUE_FILES_LABEL, leaves_validation)):
            if is_asked(request):
                return await self._break_glass(request, label)
        files = queue_files(request)
        if len(files) > FILES_MAX:
            return Decision(
                f"the ConfigMap has {len(files)} queue files (keys ending in .yaml); at most {FILES_MAX} are allowed"
            )
        try:
            async with asyncio.timeout(VALIDATION_SECONDS):
                results = [await self._result(key, text) for key, text in files.items()]
        except TimeoutError:
            return Decision(warnings=(_NOT_VALIDATED,))
        decision = decide(self._rules, request, results)
        text = files.get(self._rules.file_in_use)
        if not decision.is_allowed or text is None:
            return decision
        return await self._with_impact(decision, text)

    async def _result(self, key: str, text: str | None) -> QueueFileResult:
        if text is None:
            return QueueFileResult(key, ("is not UTF-8 text; it must be",))
        return await self._read(text, key)

    async def _with_impact(self, decision: Decision, text: str) -> Decision:
        try:
            impact = await self._ask_impact(text)
        except ImpactUnknown as error:
            self._metrics.impact_unknown.inc()
            return Decision(warnings=(f"impact unknown: {error}", *decision.warnings))
        if impact.refusal:
            return Decision(f"the daemon would not take {self._rules.file_in_use}: {impact.refusal}")
        changes = impact.changes or ("nothing changes for queues and running work",)
        return Decision(warnings=(*(f"impact: {change}" for change in changes), *decision.warnings))

    async def _break_glass(self, request: AdmissionRequest, label: str) -> Decision:
        rules = self._rules
        try:
            may = await self._may_break_glass(request.user_info, rules.namespace, rules.config_map)
        except ApiError as error:
            return Decision(f"label {label}: whether you may change it cannot be found out: {error}")
        if not may:
            return Decision(
                f"label {label}: to have queue files stored that are not validated, you have to be allowed the verb "
                f"{VERB!r} for {RESOURCE}.{GROUP} {rules.config_map!r} in namespace {rules.namespace!r}"
            )
        return Decision(warnings=(f"label {label}: the queue files are not validated",))
