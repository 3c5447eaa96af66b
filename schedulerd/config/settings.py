"""The settings of the daemon, as one frozen model with their defaults, their bounds and their help.

Where the values come from is the business of `settings_layers`: here a setting means the same wherever it comes from.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    DirectoryPath,
    Field,
    FilePath,
    model_validator,
)

from schedulerd.address import split_address
from schedulerd.config.identities import DEFAULT_NAME_KINDS, EVERYTHING, NameKinds, RmIdentities, names_meant
from schedulerd.core.specs import DAY_NS, SECOND_NS, Timeouts

CLASS_NAME_LENGTH_MAX = 256
"""Of a priority class: a name in Kubernetes has 253 at most."""


class LogLevel(StrEnum):
    """The least severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """One JSON object a line for machines, or coloured text for people."""

    JSON = "json"
    CONSOLE = "console"


class HttpAccess(StrEnum):
    """Who is answered on an HTTP path."""

    AUTO = "auto"
    """Everybody if `http_bind` is a loopback address, and nobody otherwise."""
    ON = "on"
    """Everybody who reaches the port."""
    TOKEN = "token"
    """Clients with the bearer token of `http_token_file`."""
    OFF = "off"
    """Nobody."""


class GangStyle(StrEnum):
    """What becomes of an application whose gang does not fit in time (gang design)."""

    HARD = "Hard"
    SOFT = "Soft"


def _capitalized(value: object) -> object:
    return value.capitalize() if isinstance(value, str) else value


def _address(address: str) -> str:
    split_address(address)
    return address


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _classes(value: object) -> object:
    """NAME=NUMBER pairs as flags and environment give them; a mapping, as the file gives it, stays."""
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


ClassName = Annotated[str, AfterValidator(_class_name)]
Priority = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Address = Annotated[str, AfterValidator(_address)]
Seconds = Annotated[float, Field(gt=0, le=1_000_000_000, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)]


class Settings(BaseModel):
    """All that can be set. Descriptions are the help of the flags; a name's last word is the unit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: FilePath | None = Field(default=None, description="Queue file; without it the one that is shipped.")
    policy_groups_dir: DirectoryPath | None = Field(
        default=None,
        description="Directory of queue files GROUP.yaml, one for each policyGroup that resource managers name.",
    )
    queue_file_poll_s: float = Field(
        default=5,
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="How often the queue files and the TLS files are looked at for a change; 0 for never, which leaves "
        "SIGHUP.",
    )
    grpc_bind: Address = Field(default="0.0.0.0:3333", description="HOST:PORT for gRPC.")
    http_bind: Address = Field(default="0.0.0.0:9080", description="HOST:PORT for metrics, health and REST.")
    http_loglevel: Annotated[HttpAccess, BeforeValidator(_lower)] = Field(
        default=HttpAccess.AUTO,
        description="Who may change the log level with PUT /loglevel: on for everybody, token for clients with that of "
        "http_token_file, off for nobody; auto is on if http_bind is a loopback address and off otherwise.",
    )
    http_debug_state: Annotated[HttpAccess, BeforeValidator(_lower)] = Field(
        default=HttpAccess.ON, description="Who may look at /debug/state: on, token, off or auto, as for http_loglevel."
    )
    http_token_file: FilePath | None = Field(
        default=None,
        description="File with the bearer token for HTTP paths that are set to token; read again when it changes.",
    )
    log_level: Annotated[LogLevel, BeforeValidator(_lower)] = Field(
        default=LogLevel.INFO, description="Least severity that is logged."
    )
    log_format: Annotated[LogFormat, BeforeValidator(_lower)] = Field(
        default=LogFormat.JSON, description="Form of the log lines."
    )
    grpc_reflection: bool = Field(
        default=True, description="Whether clients may ask for the services and their messages."
    )
    tls_cert_file: FilePath | None = Field(
        default=None, description="Certificate chain (PEM) of the gRPC server; turns TLS on."
    )
    tls_key_file: FilePath | None = Field(default=None, description="Private key (PEM) of that certificate.")
    tls_client_ca_file: FilePath | None = Field(
        default=None, description="Authorities (PEM) of client certificates; turns mutual TLS on."
    )
    rm_identities: RmIdentities = Field(
        default={},
        description="Names in client certificates with the rmIDs they may use, and * for all: nobody may use others. "
        "NAME=RMID,NAME=RMID on the command line, a mapping in the settings file; without it there is no such check.",
    )
    tls_identity_names: NameKinds = Field(
        default=DEFAULT_NAME_KINDS,
        description="Kinds of names in client certificates that count for rm_identities: cn, dns, uri, email, ip; with "
        "commas between them on the command line, a list in the settings file.",
    )
    priority_classes: Annotated[dict[ClassName, Priority], BeforeValidator(_classes)] = Field(
        default={},
        description="Priorities by the names that resource managers of the interface of 2021-02 may give instead; "
        "NAME=NUMBER,NAME=NUMBER on the command line, a mapping in the settings file.",
    )
    gang_style_2021: Annotated[GangStyle, BeforeValidator(_capitalized)] = Field(
        default=GangStyle.HARD,
        description="Whether applications of resource managers of the interface of 2021-02, which has no field for it, "
        "fail when their gang does not fit in time (Hard), or go on without it (Soft).",
    )
    cycle_allocations_max: int = Field(default=400, ge=1, le=1_000_000, description="Most placements in one cycle.")
    inbox_max: int = Field(
        default=1_000, ge=1, le=1_000_000, description="Most commands waiting before requests must wait."
    )
    outbox_max_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=64 * 1024,
        le=2**40,
        description="Most bytes of responses waiting for one stream's reader before its resource manager must resync; "
        "from half of it on, its requests wait.",
    )
    max_message_bytes: int = Field(
        default=16 * 1024 * 1024,
        ge=4 * 1024 * 1024,
        le=2**31 - 1,
        description="Largest gRPC message, in either direction.",
    )
    max_message_items: int = Field(
        default=250_000,
        ge=1_000,
        le=10_000_000,
        description="Most items in one message of a stream; one with more ends its stream, and nothing of it is taken.",
    )
    resource_managers_max: int = Field(
        default=1_000, ge=1, le=100_000, description="Most resource managers that are registered at a time."
    )
    calls_max: int = Field(
        default=10_000,
        ge=100,
        le=1_000_000,
        description="Most gRPC calls at a time, open streams among them; one more is refused.",
    )
    connections_max: int = Field(
        default=5_000,
        ge=1,
        le=1_000_000,
        description="Most gRPC connections at a time; one more is closed at once. Each takes a file descriptor.",
    )
    connection_calls_max: int = Field(
        default=64,
        ge=1,
        le=1_000_000,
        description="Most gRPC calls at a time on one connection, open streams among them; further ones wait in the "
        "client.",
    )
    handshake_timeout_s: float = Field(
        default=20,
        ge=0.001,
        le=3_600,
        allow_inf_nan=False,
        description="How long a new gRPC connection may take to begin, TLS included, before it is closed.",
    )
    keepalive_s: float = Field(
        default=30,
        ge=0.1,
        le=86_400,
        allow_inf_nan=False,
        description="How long a gRPC connection may be silent before its client is asked for a sign of life; it is "
        "closed if none comes within a third of that.",
    )
    metrics_series_max: int = Field(
        default=5_000,
        ge=100,
        le=1_000_000,
        description="Most series of a metric on /metrics, which resource managers share equally; what is left out is "
        "added up.",
    )
    recount_items_max: int = Field(
        default=10_000,
        ge=0,
        le=10_000_000,
        description="Most nodes, applications, allocations and asks that /debug/state recounts to check the "
        "scheduler's invariants; scheduling stands still for about 1 ms per 300 of them.",
    )
    reconnect_timeout_s: Seconds = Field(
        default=300, description="How long a resource manager may be away before its state is dropped."
    )
    resync_after_lost_connection: bool = Field(
        default=False,
        description="Whether a resource manager whose connection broke with responses on their way has to report "
        "everything again. For those that keep one connection and do not say how far they have come, as Kubernetes "
        "shims do.",
    )
    completing_timeout_s: Seconds = Field(
        default=30, description="How long an application without work stays Completing before it is Completed."
    )
    starting_timeout_s: Seconds = Field(
        default=300, description="How long an application with one allocation stays Starting before it is Running."
    )
    placeholder_timeout_s: Seconds = Field(
        default=900,
        description="How long a gang may take from its first placeholder placed, if its application does not say.",
    )
    gang_deadlock_timeout_s: float = Field(
        default=60,
        ge=0,
        le=1_000_000_000,
        allow_inf_nan=False,
        description="How long a gang that has begun finds no node for the rest of it before later gangs that are "
        "incomplete too give their placeholders back for it; at most half of its own time, 0 for never.",
    )
    reservation_delay_s: float = Field(
        default=2,
        ge=0,
        le=1_000_000_000,
        allow_inf_nan=False,
        description="How old an ask that finds no node has to be before room of one is kept for it; 0 for at once.",
    )
    reservation_s: Seconds = Field(
        default=300, description="How long room is kept for an ask at most, and how long it is left to others then."
    )
    preemption_attempt_s: Seconds = Field(
        default=15,
        description="How long it takes at least before it is looked at again whether others have to end for an ask.",
    )
    queue_cleanup_timeout_s: Seconds = Field(
        default=10,
        description="How long an empty queue stays that nobody needs any longer: dynamic, or gone from the file.",
    )
    retention_days: Days = Field(default=3, description="How long a finished application is remembered.")
    early_message_timeout_s: float = Field(
        default=2,
        ge=0,
        le=3_600,
        description="How long an item waits for the application or node it refers to; 0 for not at all.",
    )
    predicates_timeout_s: Seconds = Field(
        default=5,
        description="How long the result of a resource manager on an ask and a node is waited for; none is a refusal.",
    )
    predicate_retry_delay_s: Seconds = Field(
        default=30,
        description="How long an ask rests that its resource manager refused on every node with room, unless a node "
        "changes before that.",
    )
    event_tracking: bool = Field(
        default=True, description="Whether events are recorded, even while nobody follows them."
    )
    event_ring_max: int = Field(
        default=100_000,
        ge=1_000,
        le=1_000_000,
        description="Most events that are kept to be listed; memory is about 200 bytes for each.",
    )
    journal: DirectoryPath | None = Field(
        default=None,
        description="Directory for a journal of every command, to replay what happened; each start makes a new one "
        "there. Without it none is written.",
    )
    journal_file_max_bytes: int = Field(
        default=256 * 1024 * 1024,
        ge=4 * 1024 * 1024,
        le=2**40,
        description="Size at which a file of the journal is followed by the next one.",
    )
    journal_max_bytes: int = Field(
        default=16 * 1024 * 1024 * 1024,
        ge=4 * 1024 * 1024,
        le=2**50,
        description="Size at which the journal ends, of all its files; a replay needs every one, so none is removed.",
    )
    stop_at_input_end: bool = Field(
        default=False,
        description="Whether the end of standard input stops the daemon like SIGTERM: it ends with who holds the pipe.",
    )
    drain_timeout_s: Seconds = Field(default=10, description="How long a shutdown waits for streams to end.")

    @model_validator(mode="after")
    def _tls_is_complete(self) -> Self:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file must be set together")
        if self.tls_client_ca_file is not None and self.tls_cert_file is None:
            raise ValueError("tls_client_ca_file needs tls_cert_file and tls_key_file too")
        if self.rm_identities and self.tls_client_ca_file is None:
            raise ValueError("rm_identities needs tls_client_ca_file: without client certificates nobody has a name")
        return self

    @model_validator(mode="after")
    def _tokens_are_known(self) -> Self:
        for setting in ("http_loglevel", "http_debug_state"):
            if getattr(self, setting) is HttpAccess.TOKEN and self.http_token_file is None:
                raise ValueError(f"{setting} is token, which needs http_token_file")
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
            refusal_ns=_nanoseconds(self.predicate_retry_delay_s, SECOND_NS),
        )


def _nanoseconds(amount: float, unit_ns: int) -> int:
    return round(amount * unit_ns)
