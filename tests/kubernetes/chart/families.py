"""All metrics that queries may be about, and the rule about those of the daemon."""

from __future__ import annotations

import re

from prometheus_client.metrics import MetricWrapperBase

from schedulerd.kubernetes.admission.metrics import AdmissionMetrics
from schedulerd.kubernetes.shim.families import FAMILIES as OF_THE_SHIM
from schedulerd.observe.families import FAMILIES as OF_THE_DAEMON

OF_THE_WEBHOOKS = {
    one._name + ("_total" if one._type == "counter" else ""): set(one._labelnames)
    for one in vars(AdmissionMetrics()).values()
    if isinstance(one, MetricWrapperBase)
}
LABELS = {
    **{one.name: set(one.labels) for one in OF_THE_DAEMON},
    **{one.name: set(one.labels) for one in OF_THE_SHIM},
    **OF_THE_WEBHOOKS,
}
"""By the name of the metric."""

_SELECTED = re.compile(
    r"\b(?P<name>schedulerd_\w+?)(?:_bucket)?\b(?:\{[^}]*\})?(?:\[[^\]]*\]\))?"
    r"(?P<gate>\s+and on \(namespace, pod\) schedulerd_leader(?:\{[^}]*\})? == 1)?"
)
_OF_THE_DAEMON = {one.name for one in OF_THE_DAEMON}


def of_any_daemon(query: str) -> set[str]:
    """Metrics of the daemon that the query does not only take from the pod of the leader."""
    found = _SELECTED.finditer(query)
    return {one["name"] for one in found if one["name"] in _OF_THE_DAEMON and not one["gate"]}
