"""Makes the Grafana dashboards of the chart: `make manifests`.

`python -m tests.kubernetes.chart.dashboards`
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from grafana_foundation_sdk.builders.common import VizLegendOptions, VizTooltipOptions
from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable, QueryVariable, Row
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.timeseries import Panel
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DataSourceRef, VariableRefresh, VariableSort

from tests.kubernetes.chart.helm import CHART

FOLDER = CHART / "files" / "dashboards"
PROMETHEUS = DataSourceRef(type_val="prometheus", uid="$datasource")
COLUMNS = 24
HERE = '{namespace="$namespace"}'
OF_LEADER = f"and on (namespace, pod) schedulerd_leader{HERE} == 1"
"""What follows each metric of the daemon: a standby has nothing to tell, and an old leader what was there once."""
EACH_DAEMON = {
    "schedulerd_loop_lag_seconds": "every daemon has a loop",
    "schedulerd_cycle_duration_seconds": "every daemon has cycles",
    "schedulerd_inbox_depth": "every daemon has an inbox",
    "schedulerd_outbox_depth": "every daemon has an outbox",
    "schedulerd_config_info": "every daemon reads the queue file",
    "schedulerd_queue_file_valid": "every daemon reads the queue file",
    "schedulerd_config_last_reload_successful": "every daemon reads the queue file",
    "schedulerd_resource_managers": "the shim that is lost does not say that it leads",
    "schedulerd_checks_failed_total": "a bug is one wherever it is",
    "schedulerd_events_failed_total": "a bug is one wherever it is",
    "schedulerd_journal_recording": "every daemon has a journal",
}
"""Metrics of the daemon that are asked of all, and why. Also in alerts."""


@dataclass(frozen=True)
class Graph:
    title: str
    unit: str
    queries: dict[str, str]
    """By legend."""
    description: str = ""


def of_leader(metric: str, by: str, selector: str = "") -> str:
    """The sum of a gauge over the leader's series."""
    return f"sum by ({by}) ({selected(metric, selector)} {OF_LEADER})"


def rate(metric: str, by: str, selector: str = "") -> str:
    return f"sum by ({by}) (rate({selected(metric, selector)}[$__rate_interval]))"


def rate_of_leader(metric: str, by: str, selector: str = "") -> str:
    return f"sum by ({by}) (rate({selected(metric, selector)}[$__rate_interval]) {OF_LEADER})"


def selected(metric: str, selector: str) -> str:
    more = f",{selector}" if selector else ""
    return f'schedulerd_{metric}{{namespace="$namespace"{more}}}'


def quantile(share: float, metric: str, by: str = "le", of: Callable[[str, str], str] = rate) -> str:
    return f"histogram_quantile({share:g}, {of(f'{metric}_seconds_bucket', by)})"


def quantiles(metric: str) -> dict[str, str]:
    """Of the leader."""
    shares = {"half": 0.5, "99 of 100": 0.99}
    return {legend: quantile(share, metric, of=rate_of_leader) for legend, share in shares.items()}


def above_zero(query: str) -> str:
    """What is above 0, in place of many lines at 0; a line at 0 if nothing is."""
    return f"{query} > 0 or vector(0)"


ALLOCATED = of_leader("allocated_resources", "resource", 'queue="root"')
FIRING = 'count by (alertname) (ALERTS{alertname=~"Schedulerd.+",alertstate="firing",namespace=~"$namespace|"})'
LOST = 'sum by (state) (schedulerd_resource_managers{namespace="$namespace",state="paused"} unless on (namespace, pod) '
NOT_ROOT = 'queue!="root"'
FAILED = 'code!~"2..|404|409"'
API_FAILURES = rate("kubernetes_requests_total", "method, resource, code", FAILED)
OPERATORS: dict[str, list[Graph]] = {
    "Is anything wrong?": [
        Graph(
            "Alerts that fire",
            "short",
            {"{{alertname}}": f"{FIRING} or vector(0)"},
            "Of this namespace, or of none. Each has a page in docs/runbooks.",
        ),
        Graph(
            "Replicas",
            "short",
            {
                "ready": f"sum(schedulerd_kubernetes_ready{HERE})",
                "leaders": f"sum(schedulerd_leader{HERE})",
                "resource managers lost": f"{LOST}schedulerd_leader{HERE} == 0)",
            },
            "One leader, and as many ready as there are replicas.",
        ),
        Graph(
            "Refused by the API server",
            "ops",
            {"{{method}} {{resource}} {{code}}": above_zero(API_FAILURES)},
            "Without 404 and 409, which are part of normal work. `unreachable`: no answer.",
        ),
        Graph(
            "Refused by the daemon",
            "ops",
            {"{{object}} {{code}}": above_zero(rate_of_leader("rejections_total", "object, code"))},
            "Applications, asks and nodes; the log and the event of the pod say why.",
        ),
    ],
    "Who waits, and why?": [
        Graph(
            "Pods that wait, by queue",
            "short",
            {"{{queue}}": f"topk(10, {of_leader('pending_allocations', 'queue')})"},
            "The ten queues with most; a queue includes those below it. `schedulerd explain queue PATH` says why.",
        ),
        Graph(
            "Pods that only lack room on nodes",
            "short",
            {"pods": of_leader("outstanding_requests", "namespace")},
            "All quotas and limits would let them in: a larger cluster would run them.",
        ),
        Graph(
            "What they lack",
            "short",
            {"{{resource}}": of_leader("outstanding_resources", "resource")},
            "vcore in thousandths of a processor, memory in bytes.",
        ),
        Graph(
            "Gangs",
            "ops",
            {"{{event}}": rate_of_leader("gangs_total", "event")},
            "docs/metrics.md has what the events are.",
        ),
    ],
    "Scheduling": [
        Graph(
            "Pods bound",
            "ops",
            {"bound": rate("kubernetes_writes_total", "namespace", 'kind="bind",result="done"')},
        ),
        Graph("Pods of schedulerd", "short", {"{{state}}": of_leader("kubernetes_pods", "state")}),
        Graph(
            "What asks wait for",
            "short",
            {"{{state}}": of_leader("pending_asks", "state")},
            "Pending states; docs/pending-pods.md has what each means.",
        ),
        Graph("From pod seen to bound", "s", quantiles("kubernetes_pod_bound")),
        Graph("From ask to placement", "s", quantiles("placement_latency")),
        Graph(
            "Use of the cluster",
            "percentunit",
            {"{{resource}}": f"{ALLOCATED} / {of_leader('capacity_resources', 'resource')}"},
        ),
    ],
    "Leader": [
        Graph("Leader", "short", {"{{pod}}": f"schedulerd_leader{HERE}"}),
        Graph(
            "Time left of the Lease",
            "s",
            {"{{pod}}": f"schedulerd_kubernetes_lease_seconds_left{HERE}"},
            "For how long writes may still leave without another renewal.",
        ),
        Graph("Renewals of the Lease", "ops", {"{{result}}": rate("kubernetes_lease_renewals_total", "result")}),
        Graph("Changes of the leader", "short", {"all": f"max(schedulerd_kubernetes_lease_transitions{HERE})"}),
        Graph(
            "Last takeover",
            "s",
            {"{{pod}}": f"schedulerd_kubernetes_takeover_seconds{HERE} {OF_LEADER}"},
            "From getting the Lease until everything was reported to the daemon.",
        ),
    ],
    "API server": [
        Graph("Requests by status", "ops", {"{{code}}": rate("kubernetes_requests_total", "code")}),
        Graph("Requests, 99 of 100", "s", {"{{method}}": quantile(0.99, "kubernetes_request_duration", "method, le")}),
        Graph(
            "Writes wait in the shim, 99 of 100", "s", {"{{kind}}": quantile(0.99, "kubernetes_write_wait", "kind, le")}
        ),
        Graph(
            "Writes by result",
            "ops",
            {"{{kind}} {{result}}": above_zero(rate("kubernetes_writes_total", "kind, result"))},
        ),
        Graph(
            "Silence of watches",
            "s",
            {"{{resource}}": f"max by (resource) (schedulerd_kubernetes_watch_silence_seconds{HERE})"},
        ),
        Graph(
            "Reasons not written yet",
            "short",
            {"pods": f"max(schedulerd_kubernetes_reasons_waiting{HERE})"},
            "Pods whose condition and event are late.",
        ),
    ],
    "Daemon": [
        Graph("Delay of the event loop, 99 of 100", "s", {"{{pod}}": quantile(0.99, "loop_lag", "pod, le")}),
        Graph("Cycles, 99 of 100", "s", {"{{pod}}": quantile(0.99, "cycle_duration", "pod, le")}),
        Graph(
            "Waiting messages",
            "short",
            {
                "in {{pod}}": f"sum by (pod) (schedulerd_inbox_depth{HERE})",
                "out {{pod}}": f"sum by (pod) (schedulerd_outbox_depth{HERE})",
            },
        ),
        Graph("Preempted pods", "ops", {"{{queue}}": rate_of_leader("preemption_victims_total", "queue")}),
        Graph("Memory", "bytes", {"{{pod}} {{container}}": f"process_resident_memory_bytes{HERE}"}),
        Graph(
            "Processors",
            "short",
            {"{{pod}} {{container}}": f"rate(process_cpu_seconds_total{HERE}[$__rate_interval])"},
        ),
    ],
    "Webhooks": [
        Graph(
            "Reviews",
            "ops",
            {"{{webhook}} {{result}}": rate("admission_reviews_total", "webhook, result")},
            "Decided: allowed, patched or refused.",
        ),
        Graph(
            "Reviews without a decision",
            "ops",
            {"{{webhook}} {{cause}}": above_zero(rate("admission_reviews_failed_total", "webhook, cause"))},
            "The failurePolicy of the webhook decides.",
        ),
        Graph("Reviews, 99 of 100", "s", {"{{webhook}}": quantile(0.99, "admission_review", "webhook, le")}),
        Graph(
            "Certificate ends in",
            "s",
            {"{{pod}}": f"schedulerd_admission_certificate_expiry_timestamp_seconds{HERE} - time()"},
            "It is replaced 30 days before.",
        ),
    ],
    "Queue file": [
        Graph(
            "In force",
            "short",
            {"{{pod}} {{checksum}}": 'schedulerd_config_info{namespace="$namespace",rm=""}'},
            "The checksum of the queue file of each replica.",
        ),
        Graph("Last one valid", "short", {"{{pod}} {{rm}}": f"schedulerd_config_last_reload_successful{HERE}"}),
    ],
}
QUEUE = 'queue=~"$queue"'
BY_QUEUE = "queue, resource"
USED = of_leader("allocated_resources", BY_QUEUE, QUEUE)


def share_of(quota: str) -> str:
    """What is used of a quota that is not 0."""
    return f"{USED} / ({of_leader(quota, BY_QUEUE, QUEUE)} > 0)"


TEAMS: dict[str, list[Graph]] = {
    "Quota": [
        Graph(
            "Used of the maximum",
            "percentunit",
            {"{{queue}} {{resource}}": share_of("max_resources")},
            "At 100 % pods wait for others of the queue to end. Queues without a maximum are not shown.",
        ),
        Graph(
            "Used of the guarantee",
            "percentunit",
            {"{{queue}} {{resource}}": share_of("guaranteed_resources")},
            "Below 100 % pods of the queue may have others preempted; above, its own may be preempted.",
        ),
        Graph("Maximum", "short", {"{{queue}} {{resource}}": of_leader("max_resources", BY_QUEUE, QUEUE)}),
        Graph("Guaranteed", "short", {"{{queue}} {{resource}}": of_leader("guaranteed_resources", BY_QUEUE, QUEUE)}),
        Graph(
            "Running applications",
            "short",
            {
                "{{queue}}": of_leader("applications", "queue", f'{QUEUE},state="running"'),
                "{{queue}} at most": of_leader("max_applications", "queue", QUEUE),
            },
        ),
    ],
    "Now": [
        Graph(
            "Used",
            "short",
            {"{{queue}} {{resource}}": USED},
            "vcore in thousandths of a processor, memory in bytes. A queue includes what is below it.",
        ),
        Graph(
            "Asked for and not placed",
            "short",
            {"{{queue}} {{resource}}": of_leader("pending_resources", "queue, resource", QUEUE)},
        ),
        Graph("Pods that wait", "short", {"{{queue}}": of_leader("pending_allocations", "queue", QUEUE)}),
        Graph(
            "Why they wait",
            "short",
            {"{{queue}} {{state}}": of_leader("leaf_pending_asks", "queue, state", QUEUE)},
            "By leaf queue. `schedulerd explain queue PATH` has the details.",
        ),
        Graph("Applications", "short", {"{{queue}} {{state}}": of_leader("applications", "queue, state", QUEUE)}),
    ],
    "Gangs and preemption": [
        Graph(
            "Members of gangs without room",
            "short",
            {
                "{{queue}}": of_leader("pending_placeholders", "queue", QUEUE),
                "{{queue}}, slots": of_leader("pending_slots", "queue", QUEUE),
            },
        ),
        Graph(
            "Room held for gangs",
            "short",
            {
                "{{queue}}": of_leader("allocated_placeholders", "queue", QUEUE),
                "{{queue}}, slots": of_leader("held_slots", "queue", QUEUE),
            },
        ),
        Graph("Pods lost to others", "ops", {"{{queue}}": rate_of_leader("preemption_victims_total", "queue", QUEUE)}),
        Graph("Pods gained by preemption", "ops", {"{{queue}}": rate_of_leader("preemptions_total", "queue", QUEUE)}),
    ],
}
DASHBOARDS = {"operators": OPERATORS, "teams": TEAMS}
WEBHOOKS = "operators: Webhooks: "
"""How the names of queries about the webhooks begin."""
MAY_BE_ZERO = {
    "operators: Replicas: resource managers lost": "no shim is lost",
    "operators: Webhooks: Reviews without a decision: {{webhook}} {{cause}}": "all reviews are decided",
    "operators: Changes of the leader: all": "the leader stays",
    "operators: Reasons not written yet: pods": "reasons are written at once",
    "operators: Waiting messages: in {{pod}}": "it is scraped when nothing is under way",
    "operators: Waiting messages: out {{pod}}": "it is scraped when nothing is under way",
    "operators: Refused by the API server: {{method}} {{resource}} {{code}}": "the chart grants all rights",
    "operators: Refused by the daemon: {{object}} {{code}}": "the daemon rejects nothing of the story",
}
"""Queries that may be 0 throughout the story, and why. All others are above 0 in one of its scrapes."""
ALERTS_PANEL = "operators: Alerts that fire: {{alertname}}"
"""The stories evaluate no rules."""


def panel(graph: Graph, number: int) -> Panel:
    legend = VizLegendOptions().show_legend(True).display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    tooltip = VizTooltipOptions().mode(TooltipDisplayMode.MULTI)
    made = Panel().title(graph.title).unit(graph.unit).datasource(PROMETHEUS).span(COLUMNS // 2).height(8).min(0)
    made = made.id(number).legend(legend).tooltip(tooltip)
    if graph.description:
        made = made.description(graph.description)
    for letter, (name, query) in zip("ABCDEF", graph.queries.items(), strict=False):
        made = made.with_target(Dataquery().expr(query).legend_format(name).ref_id(letter))
    return made


def variable(name: str, query: str) -> QueryVariable:
    made = QueryVariable(name).query(query).datasource(PROMETHEUS)
    return made.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)


def text(name: str) -> str:
    """The dashboard as JSON."""
    made = Dashboard(f"schedulerd: {name}").uid(f"schedulerd-{name}").tags(["schedulerd"]).readonly()
    made = made.time("now-6h", "now").refresh("1m").tooltip(DashboardCursorSync.CROSSHAIR)
    made = made.with_variable(DatasourceVariable("datasource").type("prometheus"))
    made = made.with_variable(variable("namespace", "label_values(schedulerd_kubernetes_ready, namespace)"))
    if name == "teams":
        queues = variable("queue", 'label_values(schedulerd_allocated_resources{namespace="$namespace"}, queue)')
        made = made.with_variable(queues.multi(True).include_all(True).all_value(".*"))
    numbers = itertools.count(1)
    for row, graphs in DASHBOARDS[name].items():
        made = made.with_row(Row(row).id(next(numbers)))
        for graph in graphs:
            made = made.with_panel(panel(graph, next(numbers)))
    return str(JSONEncoder(sort_keys=True, indent=2).encode(made.build())) + "\n"


def queries() -> dict[str, str]:
    """Every query by dashboard, row (only of the webhooks), panel and legend."""
    return {
        f"{name}: {'Webhooks: ' if row == 'Webhooks' else ''}{graph.title}: {legend}": query
        for name, rows in DASHBOARDS.items()
        for row, graphs in rows.items()
        for graph in graphs
        for legend, query in graph.queries.items()
    }


def main() -> None:
    for name in DASHBOARDS:
        (FOLDER / f"{name}.json").write_text(text(name))


if __name__ == "__main__":
    main()
