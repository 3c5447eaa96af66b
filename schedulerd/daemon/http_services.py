"""The HTTP port of a running daemon: probes, metrics, the API, the web page and the REST API of YuniKorn."""

from __future__ import annotations

from collections.abc import Callable

from schedulerd.address import split_address
from schedulerd.config import Settings
from schedulerd.daemon.access.refusals import Refusals
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.api.app import build_api
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.daemon.admin.api.tokens import Tokens
from schedulerd.daemon.admin.http import HttpServer, Sources, build_app, metrics_endpoint
from schedulerd.daemon.admin.http_access import Gate
from schedulerd.daemon.admin.scrapes import Scrapes
from schedulerd.daemon.admin.standby import Standby
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.admin.ui.assembly import make_ui
from schedulerd.daemon.files.queue_files import QueueFiles, TextReader
from schedulerd.daemon.runtime.failures import cannot_listen
from schedulerd.daemon.runtime.journaling import journal_state
from schedulerd.daemon.runtime.logs import LogLevel
from schedulerd.daemon.scheduling import Scheduling
from schedulerd.daemon.yunikorn.app import PeerApi
from schedulerd.daemon.yunikorn.assembly import rest_sources
from schedulerd.observe.ended import Ended


class HttpServices:
    """The HTTP server and what runs beside it. The port is open when it is constructed."""

    def __init__(
        self,
        settings: Settings,
        scheduling: Scheduling,
        queue_files: QueueFiles,
        validator: TextReader,
        queries: StateQueries,
        standby: Standby,
        tokens: Tokens | None,
        refusals: Refusals,
        log_level: LogLevel,
        not_ready_because: Callable[[], str],
    ) -> None:
        """The caller runs `server`, `history` and `ui`'s history. Raises `StartupFailed` if the port is in use."""
        scheduler, owner, events = scheduling.scheduler, scheduling.owner, scheduling.events
        metrics = scheduling.metrics
        access = Access(settings, tokens)
        gate = Gate(settings, access)
        scrapes = Scrapes(metrics.parts, lambda: metrics.left_out)
        rest = rest_sources(
            *(settings, scheduler.cluster, events, validator, metrics_endpoint(scrapes), log_level.get, gate.check)
        )
        self.history = rest.history
        ended = Ended()
        owner.attach(ended.observe)
        owner.attach(rest.observe)
        self.ui = make_ui(
            *(scheduler, queries, events, access, metrics.placements),
            has_tokens=tokens is not None,
            leader=lambda: standby.leader,
            broken_files=lambda: queue_files.in_force.broken,
        )
        owner.attach(self.ui.sources.queue_files.observe)
        api = ApiSources(
            *(scheduler, queries, events, access, owner.submit, validator.load),
            ended=ended,
            pod_said=scheduling.callbacks.pod_said,
            broken_files=lambda: queue_files.in_force.broken,
        )
        sources = Sources(
            gate=gate,
            scrapes=scrapes,
            log_level=log_level,
            loop_age_seconds=scheduling.probe.age_seconds,
            not_ready_because=not_ready_because,
            journal_state=lambda: journal_state(settings, scheduling.journal),
            broken_files=lambda: queue_files.in_force.broken,
            looks=queries,
            api=build_api(api),
            further=[PeerApi(rest)],
            standby=standby,
            web_root=settings.web_root,
            ui=self.ui.app(),
        )
        self.server = _http_server(settings, sources, refusals)


def _http_server(settings: Settings, sources: Sources, refusals: Refusals) -> HttpServer:
    host, port = split_address(settings.http_bind)
    try:
        return HttpServer.bind(build_app(sources), host, port, refusals.tell_of_http)
    except OSError as error:
        raise cannot_listen("HTTP", settings.http_bind, "http_bind", error) from error
