"""Every metric of `schedulerd admission`; docs/admission.md has the same, which a test checks.

No label takes a value that users of the cluster can invent.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from schedulerd.kubernetes.admission.rules.review import AdmissionRequest, Decision

PREFIX = "schedulerd_admission_"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CAUSES = ("busy", "slow", "too_large", "unusable", "bug")
"""Why a review ends without a decision."""
_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})


class AdmissionMetrics:
    """The metrics, in a registry of their own together with those of the process and of Python."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self.reviews = Counter(
            f"{PREFIX}reviews",
            "Reviews that were decided: allowed, patched or refused.",
            ("webhook", "operation", "result"),
            registry=self.registry,
        )
        self.failures = Counter(
            f"{PREFIX}reviews_failed",
            "Reviews without a decision, by cause: the failurePolicy of the webhook decides instead.",
            ("webhook", "cause"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            f"{PREFIX}review_seconds",
            "From the head of a request to the decision.",
            ("webhook",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.connections_refused = Counter(
            f"{PREFIX}connections_refused", "Connections beyond the limit.", registry=self.registry
        )
        self.certificate_expires = Gauge(
            f"{PREFIX}certificate_expiry_timestamp_seconds",
            "When the certificate in use ends, in seconds since the epoch.",
            registry=self.registry,
        )
        self.certificate_loads = Counter(
            f"{PREFIX}certificate_loads",
            "Attempts to take another certificate into use, by result: used or unusable.",
            ("result",),
            registry=self.registry,
        )
        self.bundle_current = Gauge(
            f"{PREFIX}ca_bundle_current",
            "1 if a webhook configuration has the authority of the certificate in use.",
            ("configuration",),
            registry=self.registry,
        )
        self.impact_unknown = Counter(
            f"{PREFIX}impact_unknown", "Queue files whose impact the daemon did not tell.", registry=self.registry
        )

    def decided(self, webhook: str, request: AdmissionRequest, decision: Decision, seconds: float) -> None:
        operation = request.operation if request.operation in _OPERATIONS else "other"
        result = "refused" if not decision.is_allowed else "patched" if decision.patch else "allowed"
        self.reviews.labels(webhook, operation, result).inc()
        self.seconds.labels(webhook).observe(seconds)

    def expect(self, webhooks: Iterable[str]) -> None:
        """Starts their failures at 0, so that a rate sees the first one too."""
        for webhook, cause in product(webhooks, CAUSES):
            self.failures.labels(webhook, cause)

    def failed(self, webhook: str, cause: str) -> None:
        """The cause is one of `CAUSES`."""
        self.failures.labels(webhook, cause).inc()
