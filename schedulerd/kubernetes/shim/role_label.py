"""The label of this process's own pod that says whether it leads, for Services that select the leader.

A pod whose leader was killed keeps the label until its container has started again, which is why such a Service must
also go by readiness.
"""

from __future__ import annotations

import asyncio
import logging
import random

import msgspec

from schedulerd.kubernetes.api import ApiError, BackoffSettings, Refused, Transport
from schedulerd.kubernetes.api.backoff import Backoff
from schedulerd.kubernetes.api.resources import PODS
from schedulerd.kubernetes.api.transport import MERGE_PATCH, Gate, Request, ungated
from schedulerd.kubernetes.election import Leadership, LeaseLost

LOG = logging.getLogger(__name__)

LABEL = "schedulerd.io/role"
LEADER, STANDBY = "leader", "standby"


async def keep_role_label(transport: Transport, leadership: Leadership, pod: str) -> None:
    """Sets the label of the pod, in the namespace of the lease, now and when this process is elected."""
    await _label(transport, leadership.name.namespace, pod, STANDBY, ungated)
    try:
        await leadership.elected()
    except LeaseLost:
        return
    await _label(transport, leadership.name.namespace, pod, LEADER, leadership.seconds_left)


async def _label(transport: Transport, namespace: str, pod: str, role: str, gate: Gate) -> None:
    body = msgspec.json.encode({"metadata": {"labels": {LABEL: role}}})
    request = Request("PATCH", PODS, PODS.path(namespace, pod), body=body, content_type=MERGE_PATCH)
    backoff = Backoff(BackoffSettings(most_s=10.0), random.random)
    loop = asyncio.get_running_loop()
    while True:
        try:
            await transport.request(request, gate)
            return
        except Refused as error:
            if error.status.code < 500 and error.status.code not in (401, 409, 429):
                LOG.warning("pod %s/%s gets no label %s=%s: %s", namespace, pod, LABEL, role, error)
                return
        except ApiError as error:
            LOG.debug("label %s: %s", LABEL, error)
        if gate() <= 0.0:
            return
        await asyncio.sleep(backoff.failed(loop.time()))
