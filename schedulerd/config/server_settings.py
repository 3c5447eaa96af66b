"""The settings of files, addresses and access: queue files, the gRPC and HTTP servers, the log, TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    DirectoryPath,
    Field,
    FilePath,
    ValidationInfo,
    field_validator,
    model_validator,
)

from schedulerd.address import unix_path
from schedulerd.config.identities import DEFAULT_NAME_KINDS, EVERYTHING, NameKinds, RmIdentities, names_meant
from schedulerd.config.setting_types import GrpcAddress, Hosts, HttpAccess, Origins
from schedulerd.settings.values import Address, LogFormat, LogFormatName, LogLevel, LogLevelName, lower


class ServerSettings(BaseModel):
    """A part of `Settings`."""

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
