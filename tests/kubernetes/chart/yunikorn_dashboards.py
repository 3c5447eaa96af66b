"""What YuniKorn's own Grafana dashboards ask: the queries as facts, without the dashboards.

They are `yunikorn-metrics` and `yunikorn-pprof` of the project's `deployments/grafana-dashboard`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_LATENCIES = {"scheduling": "60s", "trynode": "60s", "trypreemption": "30s"}


def _quantile(name: str) -> str:
    window = _LATENCIES[name]
    return (
        f"histogram_quantile(0.95, sum(irate(yunikorn_scheduler_{name}_latency_milliseconds_bucket[{window}])) by (le))"
    )


QUERIES = (
    "yunikorn_scheduler_application_total",
    "yunikorn_scheduler_application_submission_total",
    "yunikorn_scheduler_container_allocation_attempt_total",
    _quantile("scheduling"),
    *(
        f"yunikorn_scheduler_{resource}_node_usage_total"
        for resource in ("vcore", "memory", "pods", "ephemeral_storage")
    ),
)

NOTHING_OBSERVED = {
    _quantile("trynode"): "the stories have no predicates that are answered by the resource manager",
    _quantile("trypreemption"): "its time is part of the cycle: docs/metrics.md",
}
"""By query: why the quantile of its histogram, which is there, is no number."""

OF_A_QUEUE = (
    '{__name__=~"yunikorn_root_${Queue}_queue_app"}',
    *(
        f'{{__name__=~"yunikorn_root_${{Queue}}_queue_resource", resource="{resource}"}}'
        for resource in ("pods", "vcore", "memory")
    ),
)
"""Repeated for each queue that is chosen."""

QUEUE_METRICS = re.compile("yunikorn.+resource$")
QUEUE_NAME = re.compile("yunikorn_root_(.*)_queue")
"""How the names of queues for the choice are found."""

WITHOUT_DATA = {
    "go_.*": "schedulerd has no Go runtime: all panels of yunikorn-pprof are about memory and pauses of that",
}
"""By pattern of a metric that the dashboards ask for: why it is not there."""


def queue_names(metric_names: Iterable[str]) -> set[str]:
    """The names that the variable of the dashboard offers."""
    return {
        found[1]
        for name in metric_names
        if QUEUE_METRICS.search(name) and (found := QUEUE_NAME.search(name)) is not None
    }


def queries_of(queue: str) -> list[str]:
    return [query.replace("${Queue}", queue) for query in OF_A_QUEUE]
