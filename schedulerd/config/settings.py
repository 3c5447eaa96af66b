"""The settings of the daemon, as one frozen model with their defaults, their bounds and their help.

The sources of the values are the business of `settings_layers`: a setting means the same in each of them.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    DirectoryPath,
    Field,
    FilePath,
    ValidationInfo,
    field_validator,
    model_validator,
)

from schedulerd.address import unix_path
from schedulerd.config.identities import DEFAULT_NAME_KINDS, EVERYTHING, NameKinds, RmIdentities, names_meant
from schedulerd.core.specs import DAY_NS, SECOND_NS, Timeouts
from schedulerd.settings.values import Address, LogFormat, LogFormatName, LogLevel, LogLevelName, address, lower

CLASS_NAME_LENGTH_MAX = 256
"""Of a priority class: a name in Kubernetes has 253 at most."""


class HttpAccess(StrEnum):
    """Which clients get an answer on an HTTP path."""

    AUTO = "auto"
    """As `/api/v1`: clients with a token of the role that is needed; without `http_tokens_file`, those on this
    machine."""
    ON = "on"
    """All clients that reach the port."""
    TOKEN = "token"
    """Clients with a token of `http_tokens_file` that has the role that is needed."""
    OFF = "off"
    """No client."""


class GangStyle(StrEnum):
    """What happens to an application whose gang does not fit in time: it fails (Hard), or continues without it
    (Soft)."""

    HARD = "Hard"
    SOFT = "Soft"


def _capitalized(value: object) -> object:
    return value.capitalize() if isinstance(value, str) else value


def _classes(value: object) -> object:
    """Converts NAME=NUMBER pairs of a flag or environment variable to a mapping; a mapping of the file stays as it
    is."""
    if not isinstance(value, str):
        return value
    pairs = [pair.partition("=") for pair in value.split(",")]
    if not all(sign for _, sign, _ in pairs):
        raise ValueError("must be NAME=NUMBER pairs with commas between them, like high=1000,low=-10")
    if len({name.strip() for name, _, _ in pairs}) < len(pairs):
        raise ValueError("gives a name twice; give every name once")
    return {name.strip(): number.strip() for name, _, number in pairs}


def _class_name(name: str) -> str:
    if not 0 < len(name) <= CLASS_NAME_LENGTH_MAX:
        raise ValueError(f"a priority class needs a name of 1 to {CLASS_NAME_LENGTH_MAX} characters")
    return name


def _hosts(value: object) -> object:
    """Splits the names of a flag or environment variable; names are compared in lower case."""
    names = value.split(",") if isinstance(value, str) else value
    if isinstance(names, (list, tuple)):
        return [one.strip().lower() if isinstance(one, str) else one for one in names if one != ""]
    return names


Hosts = Annotated[tuple[str, ...], BeforeValidator(_hosts)]
ClassName = Annotated[str, AfterValidator(_class_name)]
Priority = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


ORIGINS_MAX = 100
_ORIGIN = re.compile(r"\*|https?://[A-Za-z0-9._-]+(:[0-9]{1,5})?|https?://\[[0-9a-fA-F:.]+\](:[0-9]{1,5})?")


def _origins(value: object) -> object:
    """Splits the list of a flag or environment variable."""
    return [one for one in map(str.strip, value.split(",")) if one] if isinstance(value, str) else value


def _origin(origin: str) -> str:
    if len(origin) > 300 or not _ORIGIN.fullmatch(origin):
        raise ValueError("an origin is http:// or https://, a host and perhaps a port, without a path; or * for all")
    return origin.lower()


Origins = Annotated[
    tuple[Annotated[str, AfterValidator(_origin)], ...], BeforeValidator(_origins), Field(max_length=ORIGINS_MAX)
]


def _grpc_address(value: str) -> str:
    return value if unix_path(value) is not None else address(value)


GrpcAddress = Annotated[str, AfterValidator(_grpc_address)]
Seconds = Annotated[float, Field(gt=0, le=1_000_000_000, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)]


class Settings(BaseModel):
    """All that can be set. Descriptions are the help of the flags; a name's last word is the unit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wait_for_queue_file: bool = Field(
        default=False,
        description="If there is no valid queue file at the start, stay up, not ready, and read it again every 5 s "
        "until it is valid; without this setting the daemon exits with 78. For replicas: a mistake in the file that "
        "they share then costs no restarts.",
    )
    config: Path | None = Field(
        default=None, description="Queue file (YAML). Without it, the queue file that is shipped."
    )
    policy_groups_dir: DirectoryPath | None = Field(
        default=None,
        description="Directory of queue files GROUP.yaml. A resource manager that registers with the policyGroup "
        "GROUP gets that file.",
    )
    queue_file_poll_s: float = Field(
        default=5,
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="Seconds between two checks of the queue files, TLS files and HTTP tokens file for changes. 0: "
        "only SIGHUP reads them again.",
    )
    grpc_bind: GrpcAddress = Field(
        default="0.0.0.0:3333",
        description="HOST:PORT of the gRPC server; port 0 takes any free port. Or unix:/PATH: a socket file that only "
        "the user of the daemon may open, without TLS.",
    )
    grpc_tls_bind: Address | None = Field(
        default=None,
        description="HOST:PORT of a second address of the gRPC server, with TLS, when grpc_bind is a socket file. It "
        "tells what a queue file would change (Admin.ValidateConfiguration), and nothing else. Needs tls_cert_file and "
        "tls_key_file.",
    )
    http_bind: Address = Field(
        default="0.0.0.0:9080",
        description="HOST:PORT of the HTTP server (metrics, probes, state, log level); port 0 takes any free port.",
    )
    http_loglevel: Annotated[HttpAccess, BeforeValidator(lower)] = Field(
        default=HttpAccess.AUTO,
        description="Which clients may change the log level with PUT /loglevel. on: every client; off: none; token: "
        "clients with a token of http_tokens_file that has the role operate; auto: as /api/v1, with a token of that "
        "role, or without http_tokens_file on the same machine.",
    )
    http_debug_state: Annotated[HttpAccess, BeforeValidator(lower)] = Field(
        default=HttpAccess.AUTO,
        description="Which clients may read /debug/state: on, off, token or auto, as for http_loglevel, with the role "
        "view.",
    )
    http_rest: Annotated[HttpAccess, BeforeValidator(lower)] = Field(
        default=HttpAccess.AUTO,
        description="Which clients may read the REST API of YuniKorn below /ws/v1, queue files included: on, off, "
        "token or auto, as for http_loglevel, with the role view. /ws/v1/metrics is open to all, as /metrics is.",
    )
    http_rest_operate: Annotated[HttpAccess, BeforeValidator(lower)] = Field(
        default=HttpAccess.AUTO,
        description="Which clients may read /ws/v1/stack and /ws/v1/fullstatedump: on, off, token or auto, as for "
        "http_loglevel.",
    )
    rest_items_max: int = Field(
        default=50_000,
        ge=1,
        le=10_000_000,
        description="Maximum number of objects (queues, nodes, applications, asks, allocations) in an answer below "
        "/ws/v1. A request for more is refused: nothing is left out.",
    )
    cors_origins: Origins = Field(
        default=(),
        description="Web sites whose scripts may read answers below /ws/v1, like https://ui.example.com, separated by "
        "commas on the command line, a list in the settings file; * for all. Without any, browsers let no "
        "other web site read them.",
    )
    web_root: DirectoryPath | None = Field(
        default=None,
        description="Directory of static files that are served at /, such as YuniKorn's web page. Regular files only; "
        "links that lead outside of it are not followed.",
    )
    http_tokens_file: FilePath | None = Field(
        default=None,
        description="File with the tokens of HTTP clients, a line NAME ROLE TOKEN each; roles are view and operate. It "
        "is read again when it changes. Without it, only clients on the same machine are answered, probes and metrics "
        "aside.",
    )
    http_anonymous_view: bool = Field(
        default=False,
        description="Let clients without a token read /api/v1 and the paths that are set to auto, from anywhere.",
    )
    http_hosts: Hosts = Field(
        default=(),
        description="Names under which clients reach the HTTP port, beside localhost and IP addresses: separated by "
        "commas on the command line, a list in the settings file.",
    )
    http_standby: bool = Field(
        default=False,
        description="This daemon is one of several replicas of which one leads: while no resource manager is "
        "registered here, /api/v1, /ws/v1 and /debug/state answer 503.",
    )
    log_level: LogLevelName = Field(
        default=LogLevel.INFO, description="Lowest severity that is logged: debug, info, warning or error."
    )
    log_format: LogFormatName = Field(
        default=LogFormat.JSON, description="json: one JSON object per line; console: text for people."
    )
    grpc_reflection: bool = Field(
        default=True,
        description="Serve gRPC reflection, so that tools like grpcurl can list the services and their messages.",
    )
    tls_cert_file: FilePath | None = Field(
        default=None, description="Certificate chain (PEM) of the gRPC server. Turns TLS on; needs tls_key_file."
    )
    tls_key_file: FilePath | None = Field(
        default=None, description="Private key (PEM) of the certificate in tls_cert_file."
    )
    tls_client_ca_file: FilePath | None = Field(
        default=None,
        description="Certificate authorities (PEM) for client certificates. Turns mutual TLS on: every client "
        "needs a certificate of one of them.",
    )
    rm_identities: RmIdentities = Field(
        default={},
        description="Which rmIDs a client may use, by a name in its certificate: NAME=RMID,NAME=RMID on the "
        "command line, a mapping in the settings file; * as RMID means all. An rmID that is not "
        "listed is refused. Empty: no check. Needs tls_client_ca_file.",
    )
    tls_identity_names: NameKinds = Field(
        default=DEFAULT_NAME_KINDS,
        description="Kinds of certificate names that count for rm_identities: cn, dns, uri, email, ip; separated "
        "by commas on the command line, a list in the settings file.",
    )
    priority_classes: Annotated[dict[ClassName, Priority], BeforeValidator(_classes)] = Field(
        default={},
        description="Names of priorities that resource managers of the 2021-02 interface may use in place of "
        "numbers: NAME=NUMBER,NAME=NUMBER on the command line, a mapping in the settings file.",
    )
    gang_style_2021: Annotated[GangStyle, BeforeValidator(_capitalized)] = Field(
        default=GangStyle.HARD,
        description="What happens if a gang of a 2021-02 resource manager does not fit in time, because that "
        "interface has no field for it. Hard: the application fails; Soft: it continues without the "
        "gang.",
    )
    cycle_allocations_max: int = Field(
        default=400,
        ge=1,
        le=1_000_000,
        description="Maximum number of allocations in one scheduling cycle. Requests and probes are handled "
        "between two cycles.",
    )
    inbox_max: int = Field(
        default=1_000,
        ge=1,
        le=1_000_000,
        description="Maximum number of commands that wait for the scheduler. When it is reached, the daemon reads "
        "no further requests until there is room.",
    )
    outbox_max_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=64 * 1024,
        le=2**40,
        description="Maximum size in bytes of the responses that wait on one stream to be read. From half of it "
        "on, the daemon reads no requests of this resource manager; beyond it, the resource manager "
        "has to resync.",
    )
    max_message_bytes: int = Field(
        default=16 * 1024 * 1024,
        ge=4 * 1024 * 1024,
        le=2**31 - 1,
        description="Size of the largest gRPC message, in bytes, in either direction.",
    )
    max_message_items: int = Field(
        default=250_000,
        ge=1_000,
        le=10_000_000,
        description="Maximum number of items in one message of a stream. A message with more items ends its "
        "stream, and none of its items is processed.",
    )
    resource_managers_max: int = Field(
        default=1_000,
        ge=1,
        le=100_000,
        description="Maximum number of resource managers that are registered at a time.",
    )
    calls_max: int = Field(
        default=10_000,
        ge=100,
        le=1_000_000,
        description="Maximum number of gRPC calls at a time, open streams included. A further call is refused.",
    )
    connections_max: int = Field(
        default=5_000,
        ge=1,
        le=1_000_000,
        description="Maximum number of gRPC connections at a time. A further connection is closed at once. Each "
        "connection needs a file descriptor, so at most a third of the limit of open files.",
    )
    connection_calls_max: int = Field(
        default=64,
        ge=1,
        le=1_000_000,
        description="Maximum number of gRPC calls at a time on one connection, open streams included. Further "
        "calls wait in the client.",
    )
    handshake_timeout_s: float = Field(
        default=20,
        ge=0.001,
        le=3_600,
        allow_inf_nan=False,
        description="Seconds that a new gRPC connection has for its handshake, TLS included, before it is closed.",
    )
    keepalive_s: float = Field(
        default=30,
        ge=0.1,
        le=86_400,
        allow_inf_nan=False,
        description="Seconds without traffic after which a gRPC connection is pinged. It is closed if no answer "
        "comes within a third of this time.",
    )
    metrics_series_max: int = Field(
        default=5_000,
        ge=100,
        le=1_000_000,
        description="Maximum number of series per metric on /metrics, shared equally by the resource managers. "
        "Series beyond that are added up in one series per resource manager.",
    )
    yunikorn_metrics: bool = Field(
        default=False,
        description="Add the metrics of Apache YuniKorn to /metrics, by its names (yunikorn_*), for its dashboards "
        "and alerts.",
    )
    recount_items_max: int = Field(
        default=10_000,
        ge=0,
        le=10_000_000,
        description="Maximum number of nodes, applications, allocations and asks, taken together, for which "
        "/debug/state checks the scheduler's invariants. A check stops scheduling for about 1 ms per "
        "300 of them.",
    )
    reconnect_timeout_s: Seconds = Field(
        default=300, description="Seconds after which the state of a disconnected resource manager is dropped."
    )
    resync_after_lost_connection: bool = Field(
        default=False,
        description="Require a full report from a resource manager whose connection broke before all responses "
        "were read. For clients that keep one connection and do not resume their streams, such as "
        "Kubernetes shims.",
    )
    completing_timeout_s: Seconds = Field(
        default=30,
        description="Seconds that an application without asks and allocations stays in the state Completing "
        "before it is Completed.",
    )
    starting_timeout_s: Seconds = Field(
        default=300,
        description="Seconds that an application with one allocation stays in the state Starting before it is Running.",
    )
    placeholder_timeout_s: Seconds = Field(
        default=900,
        description="Gang timeout in seconds, counted from the first allocated placeholder, for applications that "
        "do not set their own.",
    )
    gang_deadlock_timeout_s: float = Field(
        default=60,
        ge=0,
        le=1_000_000_000,
        allow_inf_nan=False,
        description="Seconds without a node for the rest of an incomplete gang, after which later incomplete "
        "gangs release their placeholders for it; at most half of the gang's own timeout. 0: never.",
    )
    reservation_delay_s: float = Field(
        default=2,
        ge=0,
        le=1_000_000_000,
        allow_inf_nan=False,
        description="Age in seconds from which on room of a node is reserved for an ask that fits on no node. 0: "
        "at once.",
    )
    reservation_s: Seconds = Field(
        default=300,
        description="Maximum seconds for which room is reserved for an ask. For the same time after that, none is "
        "reserved for it.",
    )
    preemption_attempt_s: Seconds = Field(
        default=15,
        description="Minimum seconds between two preemption attempts for an ask.",
    )
    queue_cleanup_timeout_s: Seconds = Field(
        default=10,
        description="Seconds after which an empty queue is removed, if a placement rule created it or the queue "
        "file no longer has it.",
    )
    retention_days: Days = Field(
        default=3, description="Days for which a completed, failed or rejected application is remembered."
    )
    early_message_timeout_s: float = Field(
        default=2,
        ge=0,
        le=3_600,
        description="Seconds that an item waits for the application it refers to, which may arrive later "
        "on another stream. 0: it is rejected at once.",
    )
    predicates_timeout_s: Seconds = Field(
        default=5,
        description="Seconds to wait for a resource manager's answer to a predicate call. No answer counts as a "
        "refusal.",
    )
    predicate_retry_delay_s: Seconds = Field(
        default=30,
        description="Seconds until an ask is tried again after its resource manager has refused it on every node "
        "with room. A change of a node ends the delay early.",
    )
    event_tracking: bool = Field(default=True, description="Record events, also while no client reads them.")
    event_ring_max: int = Field(
        default=100_000,
        ge=1_000,
        le=1_000_000,
        description="Maximum number of events that are kept to be listed; the oldest are dropped. Each takes "
        "about 200 bytes of memory.",
    )
    journal: DirectoryPath | None = Field(
        default=None,
        description="Directory in which each start writes a new journal of all commands, for `schedulerd replay`. "
        "Without it, no journal is written.",
    )
    journal_file_max_bytes: int = Field(
        default=256 * 1024 * 1024,
        ge=4 * 1024 * 1024,
        le=2**40,
        description="Size in bytes at which the journal continues in its next file.",
    )
    journal_max_bytes: int = Field(
        default=16 * 1024 * 1024 * 1024,
        ge=4 * 1024 * 1024,
        le=2**50,
        description="Size in bytes of all journals in the directory at which the journal ends; scheduling continues. "
        "No file is removed: a replay needs all files of a journal.",
    )
    stop_at_input_end: bool = Field(
        default=False,
        description="Shut down when standard input is closed, as after SIGTERM. For a daemon that must not "
        "outlive the process that started it.",
    )
    drain_timeout_s: Seconds = Field(
        default=10,
        description="Seconds that a shutdown waits for streams to end. The whole shutdown takes at most 15 s more.",
    )

    @field_validator("config")
    @classmethod
    def _queue_file_is_there(cls, path: Path | None, others: ValidationInfo) -> Path | None:
        if path is not None and not others.data.get("wait_for_queue_file") and not path.is_file():
            raise ValueError("must be an existing path to a file")
        return path

    @model_validator(mode="after")
    def _tls_is_complete(self) -> Self:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file must be set together")
        if self.tls_client_ca_file is not None and self.tls_cert_file is None:
            raise ValueError("tls_client_ca_file needs tls_cert_file and tls_key_file too")
        if self.grpc_tls_bind is not None and (self.tls_cert_file is None or unix_path(self.grpc_bind) is None):
            raise ValueError(
                "grpc_tls_bind needs tls_cert_file and tls_key_file, and grpc_bind as unix:/PATH: an address of "
                "grpc_bind has TLS itself"
            )
        if self.rm_identities and self.tls_client_ca_file is None:
            raise ValueError("rm_identities needs tls_client_ca_file: without client certificates no client has a name")
        return self

    @model_validator(mode="after")
    def _tokens_are_known(self) -> Self:
        for setting in ("http_loglevel", "http_debug_state", "http_rest", "http_rest_operate"):
            if getattr(self, setting) is HttpAccess.TOKEN and self.http_tokens_file is None:
                raise ValueError(f"{setting} is token, which needs http_tokens_file")
        return self

    @model_validator(mode="after")
    def _names_count(self) -> Self:
        for entry in self.rm_identities:
            kinds = [] if entry == EVERYTHING else [kind for kind, _ in names_meant(entry)]
            if kinds and not set(kinds) & set(self.tls_identity_names):
                named = " or ".join(kinds)
                raise ValueError(
                    f"rm_identities has the name {entry!r} of the kind {named}, which tls_identity_names leaves out; "
                    "add the kind there"
                )
        return self

    def timeouts(self) -> Timeouts:
        """The durations that the core waits for."""
        return Timeouts(
            completing_ns=_nanoseconds(self.completing_timeout_s, SECOND_NS),
            starting_ns=_nanoseconds(self.starting_timeout_s, SECOND_NS),
            placeholder_ns=_nanoseconds(self.placeholder_timeout_s, SECOND_NS),
            gang_deadlock_timeout_ns=_nanoseconds(self.gang_deadlock_timeout_s, SECOND_NS),
            retention_ns=_nanoseconds(self.retention_days, DAY_NS),
            reservation_delay_ns=_nanoseconds(self.reservation_delay_s, SECOND_NS),
            reservation_ns=_nanoseconds(self.reservation_s, SECOND_NS),
            preemption_attempt_ns=_nanoseconds(self.preemption_attempt_s, SECOND_NS),
            reconnect_ns=_nanoseconds(self.reconnect_timeout_s, SECOND_NS),
            cleanup_ns=_nanoseconds(self.queue_cleanup_timeout_s, SECOND_NS),
            early_message_ns=_nanoseconds(self.early_message_timeout_s, SECOND_NS),
            predicates_ns=_nanoseconds(self.predicates_timeout_s, SECOND_NS),
            predicate_retry_delay_ns=_nanoseconds(self.predicate_retry_delay_s, SECOND_NS),
        )


def _nanoseconds(amount: float, unit_ns: int) -> int:
    return round(amount * unit_ns)
