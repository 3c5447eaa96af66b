"""Puts the parts of the REST API together."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from schedulerd.config import Settings
from schedulerd.core.state.step_context import Cluster
from schedulerd.daemon.files.queue_files import TextReader
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.daemon.yunikorn.call import RestSources
from schedulerd.daemon.yunikorn.configurations import Configurations
from schedulerd.daemon.yunikorn.health import RecentFailures
from schedulerd.daemon.yunikorn.history import History
from schedulerd.daemon.yunikorn.resource_histories import ResourceHistories
from schedulerd.instant import read_clocks


def rest_sources(
    settings: Settings,
    cluster: Cluster,
    events: EventFeed,
    validator: TextReader,
    metrics: Callable[[Request], Awaitable[Response]],
    log_level: Callable[[], str],
    check_access: Callable[[str, Request], None],
) -> RestSources:
    """What the API uses in a daemon. The caller runs the history, and gives `observe` all facts."""
    return RestSources(
        cluster=cluster,
        clocks=read_clocks,
        started_at_ns=time.time_ns(),
        events=events,
        history=History(cluster, read_clocks),
        failures=RecentFailures(read_clocks),
        resource_histories=ResourceHistories(cluster),
        configurations=Configurations(validator.show),
        validate=validator.load,
        metrics=metrics,
        log_level=log_level,
        check_access=check_access,
        items_max=settings.rest_items_max,
        cors_origins=settings.cors_origins,
    )
