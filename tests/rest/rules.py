"""The documented reasons for which our answer may differ from a recorded one; docs/rest.md has the same list.

An excuse takes one difference that is left when the transforms (`transforms.py`) are done. Each rule says its sentence,
and is about a kind of answer, never about one story.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from ruamel.yaml.error import YAMLError

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import QueueFileInvalid, load_queue_file
from tests.rest.body import of_yaml
from tests.rest.compare import MISSING, Difference, Json
from tests.rest.transforms import Facts, Pair


class Excuse(NamedTuple):
    """A rule for single differences."""

    name: str
    sentence: str
    takes: Callable[[Difference, Pair, Facts], bool]


def _at(pattern: str) -> Callable[[Difference], bool]:
    expression = re.compile(pattern)
    return lambda difference: expression.search(difference.pointer) is not None


def _is_route(path: str, *ends: str) -> bool:
    return path.rstrip("/").endswith(ends)


def _answered_here(_difference: Difference, pair: Pair, facts: Facts) -> bool:
    own = ("/ws/v1/stack", "/ws/v1/fullstatedump", "/scheduler/node-utilization")
    return facts.of_head and pair.status == 200 and _is_route(pair.path, *own)


def _used_most(difference: Difference, pair: Pair, facts: Facts) -> bool:
    if facts.of_head or not _is_route(pair.path, "/scheduler/node-utilization"):
        return False
    if difference.pointer == "/type" and pair.expected.get("utilization") == pair.actual.get("utilization"):
        return True
    return pair.actual == {} and all(not bucket.get("numOfNodes") for bucket in pair.expected["utilization"][1:])


def _by_shape(difference: Difference, pair: Pair, _facts: Facts) -> bool:
    """Of a dump the keys at the top have to be there, of stacks only a text."""
    if _is_route(pair.path, "/stack"):
        return difference.pointer in ("", "Content-Type") and bool(pair.actual)
    if not _is_route(pair.path, "/fullstatedump"):
        return False
    is_inside = difference.pointer.count("/") > 1
    return is_inside or (difference.pointer.startswith("/") and difference.actual != MISSING)


def _profiles(_difference: Difference, pair: Pair, _facts: Facts) -> bool:
    return pair.status == 404 and "/debug/pprof" in pair.path


def _own_root(difference: Difference, pair: Pair, _facts: Facts) -> bool:
    return pair.path == "/"


def _empty_list(difference: Difference, pair: Pair, _facts: Facts) -> bool:
    return difference.pointer == "" and difference.expected is None and difference.actual == []


_OF_ATTRIBUTES = {"hostName": "si/hostname", "rackName": "si/rackname"}
"""Fields of a node that are attributes, by name."""


def _attributes(difference: Difference, pair: Pair, facts: Facts) -> bool:
    """Of a node that was updated with attributes: ours are those of the update, whatever was there before."""
    parts = difference.pointer.split("/")
    item = (*parts, "")[1]
    node = pair.actual.get("nodeID") if isinstance(pair.actual, dict) else item
    if node not in facts.renamed_nodes or not _at(r"(^|/)(attributes/[^/]*|hostName|rackName)$")(difference):
        return False
    name = _OF_ATTRIBUTES.get(parts[-1], parts[-1].replace("~1", "/"))
    return bool(difference.actual == facts.renamed_nodes[node].get(name, MISSING))


def _duplicate(difference: Difference, pair: Pair, facts: Facts) -> bool:
    if not facts.duplicates:
        return False
    if pair.path.endswith("/applications/rejected"):
        return difference.pointer.strip("/").split("#")[0] in facts.duplicates and difference.actual == MISSING
    if pair.path.endswith("/partitions") and _at(r"/applications/(Rejected|total)$")(difference):
        ours = 0 if difference.actual == MISSING else difference.actual
        return bool(difference.expected == ours + facts.duplicates.total())
    return False


def _timed_out(difference: Difference, _pair: Pair, _facts: Facts) -> bool:
    if not _at(r"/placeholderData/[^/]*/timedout$")(difference):
        return False
    there, ours = (0 if one == MISSING else one for one in (difference.expected, difference.actual))
    return bool(there <= ours)


def _leaked(difference: Difference, _pair: Pair, facts: Facts) -> bool:
    if not _at(r"/allocatingAcceptedApps(/[^/]*)?$")(difference) or difference.actual != MISSING:
        return False
    named = difference.expected if isinstance(difference.expected, list) else [difference.expected]
    return not set(named) & facts.active


def _seconds(difference: Difference, _pair: Pair, _facts: Facts) -> bool:
    return _at(r"/resourceHistory/[^/]+/[^/]+/[^/]+$")(difference) and all(
        isinstance(one, int) and one > 0 for one in (difference.expected, difference.actual)
    )


def _status_order(difference: Difference, _pair: Pair, _facts: Facts) -> bool:
    head = "Only following active statuses are allowed: "
    texts = [str(one) for one in (difference.expected, difference.actual)]
    if not all(text.startswith(head) for text in texts):
        return False
    there, ours = (sorted(text.removeprefix(head).split(",")) for text in texts)
    return there == ours


def _stricter(_difference: Difference, pair: Pair, _facts: Facts) -> bool:
    """A text that we refuse only for what the peer does not look at: the checksum, the placement rules, and whether
    there is a partition at all."""
    is_refused_here = (
        pair.path.endswith("/validate-conf")
        and isinstance(pair.expected, dict)
        and isinstance(pair.actual, dict)
        and pair.expected.get("allowed") is True
        and pair.actual.get("allowed") is False
        and bool(pair.actual.get("reason"))
    )
    return is_refused_here and _is_valid_beside(pair.sent)


def _is_valid_beside(text: str) -> bool:
    try:
        read = of_yaml(text)
        partitions = read.get("partitions") if isinstance(read, dict) else None
        if not partitions:
            return True
        kept = [{key: value for key, value in one.items() if key != "placementrules"} for one in partitions]
        load_queue_file(json.dumps({**read, "partitions": kept, "checksum": ""}, default=str))
    except (QueueFileInvalid, YAMLError, AttributeError):  # also for another reason, or it is no queue file at all
        return False
    return True


def _failures(difference: Difference, pair: Pair, facts: Facts) -> bool:
    """What went wrong counts here if it is an item that was rejected lately; to the peer also if it was at any time, or
    is a recovered allocation of an unknown application."""
    if not pair.path.endswith("/healthcheck"):
        return False
    if difference.pointer == "/Healthy":  # it follows from the checks, which are compared
        return all(_follows(body) for body in (pair.expected, pair.actual))
    kinds = {"/HealthChecks/0/Succeeded": "ask", "/HealthChecks/1/Succeeded": "node"}
    if difference.pointer not in kinds:
        return False
    has_failed = facts.failures[kinds[difference.pointer]] > 0
    return has_failed or (difference.expected is False and facts.ghosts > 0)


def _follows(health: Json) -> bool:
    checks = health.get("HealthChecks", []) if isinstance(health, dict) else []
    return bool(checks) and health["Healthy"] is all(one["Succeeded"] for one in checks)


def _event_switch(difference: Difference, pair: Pair, facts: Facts) -> bool:
    return facts.switches_off_events and pair.status == 200 and "/events/" in pair.path


_ONLY_OURS = frozenset({"2:1:205", "2:3:101", "4:1:404", "4:2:406", "4:3:406"})
_ONLY_THEIRS = frozenset({"3:1:302", "2:2:0"})
_OF_REJECTED = {"2:3:202": "ours", "2:1:202": "theirs"}
_CANCELLED, _REMOVED = "2:3:100", "2:3:0"
_OTHER_MOMENT = frozenset({"4:1:403", "3:1:305", "4:1:400"})
"""Changes that follow from reports of nodes and from queue files: to the peer from others of them than here."""


_CODES_OF_2023_06 = frozenset(si_pb2.EventRecord.ChangeDetail.values())


def _later_code(difference: Difference, pair: Pair, _facts: Facts) -> bool:
    """An event whose detail, or type, the interface of 2023-06 does not have: only head can send it."""
    parts = difference.pointer.removeprefix("/EventRecords/").split(":")
    if "/events/" not in pair.path or len(parts) < 3 or difference.actual != MISSING:
        return False
    kind, _, detail = parts[:3]
    is_known = detail.isdigit() and int(detail) in _CODES_OF_2023_06
    return not is_known or (kind.isdigit() and int(kind) not in si_pb2.EventRecord.Type.values())


def _event_code(difference: Difference, pair: Pair, facts: Facts) -> bool:
    if "/events/" not in pair.path or not difference.pointer.startswith("/EventRecords/"):
        return False
    kind, change, detail, name = difference.pointer.removeprefix("/EventRecords/").split(":", 3)
    code = f"{kind}:{change}:{detail}"
    there, ours = (0 if one == MISSING else one for one in (difference.expected, difference.actual))
    if code in _OTHER_MOMENT:
        return bool(abs(there - ours) <= facts.reports)
    if code in _OF_REJECTED:
        is_one_sided = there == 0 if _OF_REJECTED[code] == "ours" else ours == 0
        return is_one_sided and (name in facts.rejected or name in facts.duplicates)
    if code == _CANCELLED:  # to the peer also of each allocation that the resource manager releases
        return bool(there > ours)
    if code == _REMOVED:
        return bool(ours == 0 and there <= max(facts.submitted[name], 1) - (name in facts.active))
    return bool((code in _ONLY_OURS and there == 0) or (code in _ONLY_THEIRS and ours == 0))


def _event_of_running(difference: Difference, pair: Pair, _facts: Facts) -> bool:
    """An application with its first allocation runs to head, and is starting here."""
    code, _, name = difference.pointer.removeprefix("/EventRecords/").rpartition(":")
    return (
        "/events/" in pair.path
        and code == "2:1:206"
        and difference.actual == MISSING
        and f"2:1:205:{name}" in pair.actual["EventRecords"]
    )


def _reason(difference: Difference, _pair: Pair, _facts: Facts) -> bool:
    return _at(r"/allocationLog$")(difference) and difference.expected == MISSING and difference.actual is True


def _event_of_rejected(difference: Difference, pair: Pair, facts: Facts) -> bool:
    if "/events/" not in pair.path:
        return False
    code, _, name = difference.pointer.removeprefix("/EventRecords/").rpartition(":")
    if code in ("4:2:405", "4:3:405"):  # in the queue that it would have had
        return bool(facts.rejected or facts.duplicates)
    return code == "2:2:203" and (name in facts.rejected or name in facts.duplicates)


def _event_of_node(difference: Difference, pair: Pair, facts: Facts) -> bool:
    """An allocation joins or leaves a node: there are as many on all nodes, besides foreign ones, and real ones
    that took a placeholder where it was, which is no event of the node to the peer."""
    code = ":".join(difference.pointer.removeprefix("/EventRecords/").split(":")[:3])
    if "/events/" not in pair.path or code not in ("3:2:303", "3:3:303"):
        return False
    there, ours = (_events(value, code) for value in (pair.expected, pair.actual))
    return -_events(pair.actual, _REPLACED) <= there - ours <= facts.foreign.total()


_REPLACED = "2:3:503"


def _events(body: Json, code: str) -> int:
    """How many events of a code there are, of all objects."""
    return sum(count for name, count in body["EventRecords"].items() if name.startswith(f"{code}:"))


def _event_of_several(difference: Difference, pair: Pair, facts: Facts) -> bool:
    code = ":".join(difference.pointer.removeprefix("/EventRecords/").split(":")[:3])
    return "/events/" in pair.path and code in ("2:2:201", "1:2:0", "2:3:201") and bool(facts.several)


_OF_PLACEMENT = frozenset(
    {
        *("allocations", "requests", "reservations", "placeholderData", "stateLog", "applicationState", "finishedTime"),
        *("usedResource", "maxUsedResource", "pendingResource", "allocatedResource", "absUsedCapacity", "usedCapacity"),
        *("preemptingResource", "allocated", "available", "utilized", "utilization", "isReserved", "hasReserved"),
        *("runningApps", "runningApplications", "allocatingAcceptedApps", "currentPriority", "maxRequestPriority"),
        *("resourceUsage", "totalContainers", "totalApplications", "applications", "allocationLog", "EventRecords"),
        *("Healthy", "HealthChecks", "groups"),
    }
)
"""Fields that depend on which asks are allocated."""


def _wrong_in_1_4(difference: Difference, pair: Pair, facts: Facts) -> bool:
    """What depends on which asks are allocated, in a story with asks that 1.4 is known to allocate wrongly."""
    if not facts.diverges or facts.of_head or not difference.pointer.startswith("/"):
        return False
    is_of_use = "/usage/" in pair.path or "utilization" in pair.path  # users and nodes come and go with what they use
    return is_of_use or not _OF_PLACEMENT.isdisjoint(difference.pointer.split("/"))


def _star_group(_difference: Difference, pair: Pair, facts: Facts) -> bool:
    return not facts.of_head and pair.path.endswith("/usage/group/*")


def _template_applications(difference: Difference, _pair: Pair, facts: Facts) -> bool:
    return not facts.of_head and _at(r"/maxRunningApps$")(difference) and difference.expected == MISSING


def _later_route(difference: Difference, pair: Pair, facts: Facts) -> bool:
    if facts.of_head:
        return False
    if pair.path.endswith("/events/stream") or "/queue//application" in pair.path:
        return difference.pointer != "status" or bool(difference.expected == 404)
    return bool(pair.expected == "404 page not found\n" and pair.actual != pair.expected)


def _compressed(difference: Difference, _pair: Pair, facts: Facts) -> bool:
    return not facts.of_head and difference.pointer in ("Content-Encoding", "Vary") and not difference.expected


def _unhealthy(difference: Difference, pair: Pair, facts: Facts) -> bool:
    if facts.of_head or not pair.path.endswith("/healthcheck"):
        return False
    is_refused = isinstance(pair.expected, dict) and pair.expected.get("message") == "Scheduler is not healthy"
    is_bad_here = isinstance(pair.actual, dict) and pair.actual.get("Healthy") is False
    has_cause = is_bad_here or facts.diverges or facts.ghosts > 0 or facts.failures.total() > 0
    return has_cause and (difference.expected in (503, MISSING) or is_refused)


def _limits_of_partition(difference: Difference, pair: Pair, facts: Facts) -> bool:
    """1.4 shows limits of a partition nowhere; head gives them to its root."""
    if facts.of_head or not facts.limits_partition or difference.expected != MISSING:
        return False
    if pair.path.endswith("/config"):
        return _at(r"^/(Partitions/[^/]+/Queues/[^/]+/Limits|partitions/[^/]+/queues/root/limits)$")(difference)
    return "/usage/" in pair.path and _at(r"^(/[^/]+)?/queues/(maxApplications|maxResources)$")(difference)


def _usage_of_no_partition(_difference: Difference, pair: Pair, facts: Facts) -> bool:
    is_told = isinstance(pair.actual, dict) and pair.actual.get("message") == "Partition not found"
    found = re.fullmatch(r"/ws/v1/partition/([^/]*)/usage/.*", pair.path)
    return pair.status == 404 and is_told and found is not None and found[1] not in facts.partitions


def _kept_node(difference: Difference, pair: Pair, facts: Facts) -> bool:
    """What is there only because a node is: the node itself, its events and buckets, and its part of each sum."""
    kept = facts.kept_nodes
    if not kept or pair.status != 200:
        return False
    if pair.path.rpartition("/node/")[2] in kept:
        return True
    *_, field, name = ("", *difference.pointer.split("/"))
    if difference.expected == MISSING and (
        name in kept or (name == "nodeNames" and set(difference.actual) <= kept.keys())
    ):
        return True
    if difference.expected == MISSING and field == "EventRecords":
        return name.startswith("3:") and name.split(":", 3)[3] in kept
    there, ours = (0 if one == MISSING else one for one in (difference.expected, difference.actual))
    if not isinstance(there, int) or not isinstance(ours, int):
        return False
    if name in ("totalNodes", "numOfNodes"):
        return there < ours <= there + len(kept)
    most = there + sum(one.get(name, 0) for one in kept.values())
    if field == "capacity":
        return there < ours == most
    return field in ("headroom", "maxResource") and there < ours <= most  # a quota may let in less


EXCUSES = (
    Excuse(
        "no partition",
        "the usage of users and groups of a partition that does not exist is a 404; YuniKorn ignores the name",
        _usage_of_no_partition,
    ),
    Excuse(
        "unclaimed",
        "a node that reports an allocation of an application that is not known is registered; YuniKorn rejects it",
        _kept_node,
    ),
    Excuse("answered", "stack, fullstatedump and node-utilization answer themselves with 200", _answered_here),
    Excuse(
        "used most",
        "of resources that are used equally 1.4 shows any, and one that was used before when nothing is used",
        _used_most,
    ),
    Excuse("shape", "dumps and stacks are compared by shape", _by_shape),
    Excuse("profiles", "there are no profiles of Go", _profiles),
    Excuse("root", "/ is the daemon's own: it says which paths there are, or serves web_root", _own_root),
    Excuse("empty", "an empty list is [] and never null, which breaks the peer's own web page", _empty_list),
    Excuse(
        "attributes", "an UPDATE of a node that has attributes has all of them; the peer keeps the first", _attributes
    ),
    Excuse(
        "duplicate",
        "an application that is submitted again while it lives is refused, and is no application of its own",
        _duplicate,
    ),
    Excuse("timedout", "a placeholder counts as timed out when it is told to go, and not when it has gone", _timed_out),
    Excuse("leaked", "the peer forgets to take ended applications off allocatingAcceptedApps", _leaked),
    Excuse("seconds", "amounts times seconds depend on how long the story took", _seconds),
    Excuse("order", "the peer names the statuses in an order that is random per process", _status_order),
    Excuse("stricter", "a queue file that the scheduler would not load is not allowed", _stricter),
    Excuse(
        "failures",
        "what counts as an error is rejected items of the last ten minutes; the peer counts for ever, and other things",
        _failures,
    ),
    Excuse(
        "switch", "event tracking is a setting of the daemon, and no resource manager switches it off", _event_switch
    ),
    Excuse("codes", "some changes have an event on one side only, or at another moment (docs/rest.md)", _event_code),
    Excuse("later code", "an event that the interface of 2023-06 has no code for", _later_code),
    Excuse(
        "starting",
        "Starting is a state of 2023-06, with an event; head runs from the first allocation",
        _event_of_running,
    ),
    Excuse("reason", "every ask that waits says why", _reason),
    Excuse("rejected event", "a rejected application has no event that it was added", _event_of_rejected),
    Excuse("node event", "on which node an allocation is, is not compared; nor are foreign ones", _event_of_node),
    Excuse("later route", "1.4 has no such route", _later_route),
    Excuse("compressed", "1.4 never compresses an answer", _compressed),
    Excuse("unhealthy", "an unhealthy scheduler is 200 with its checks, as in head", _unhealthy),
    Excuse("partition limits", "limits of a partition are those of its root, as in head", _limits_of_partition),
    Excuse("star", "the group * is no legal name to head", _star_group),
    Excuse("template", "1.4 knows no maxapplications of a child template", _template_applications),
    Excuse("several event", "an ask for several allocations has one event", _event_of_several),
    Excuse(
        "wrong in 1.4",
        "1.4 places asks for resources that no node has, and counts users wrongly whose asks have resources that no "
        "limit names: its state is another one",
        _wrong_in_1_4,
    ),
)
