"""Outstanding asks -> SI 2021-02 `AutoScalingMetrics`.

The message has one size and free tags for each request, so equal asks are one request, with their number as a tag.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from schedulerd._generated.si.v2021_02 import si_pb2
from schedulerd.core.autoscaling.summary import OutstandingView
from schedulerd.core.language.resources import within_int64
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG

COUNT_TAG = "schedulerd.io/count"
"""How many allocations of that size are outstanding, as a decimal number."""
PARTITION_TAG = "schedulerd.io/partition"
QUEUE_TAG = "schedulerd.io/queue"
"""The deepest queue that all of them are in."""
AFFINITY_SCOPE_TAG = "schedulerd.io/affinity-scope"
"""The node attribute by whose groups they count other allocations; only if they do."""


def metrics(requests: Iterable[tuple[str, OutstandingView]]) -> si_pb2.AutoScalingMetrics:
    """`requests` with the name of the partition that each is of."""
    return si_pb2.AutoScalingMetrics(outstandingRequests=[_request(*one) for one in requests])


def _request(partition: str, one: OutstandingView) -> si_pb2.OutstandingResourceRequest:
    optional = {NODE_SELECTOR_TAG: one.node_selector, AFFINITY_SCOPE_TAG: one.affinity_scope}
    demands = {tag: value for tag, value in optional.items() if value}
    return si_pb2.OutstandingResourceRequest(
        requestID=_request_id(partition, one.resources, demands),
        resource=si_pb2.Resource(
            resources={name: si_pb2.Quantity(value=within_int64(amount)) for name, amount in one.resources.items()}
        ),
        tags={PARTITION_TAG: partition, QUEUE_TAG: one.queue, COUNT_TAG: str(one.count), **demands},
    )


def _request_id(partition: str, resources: dict[str, int], demands: dict[str, str]) -> str:
    """The same for equal asks whenever they are outstanding, in another run of the daemon too."""
    identity = json.dumps([partition, resources, demands], sort_keys=True)
    return hashlib.sha256(identity.encode()).hexdigest()[:32]
