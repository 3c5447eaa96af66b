"""The settings of how much the daemon takes at a time, and of what older interfaces have no field for."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from schedulerd.config.setting_types import ClassName, GangStyle, Priority, capitalized, classes


class LimitSettings(BaseModel):
    """A part of `Settings`."""

    priority_classes: Annotated[dict[ClassName, Priority], BeforeValidator(classes)] = Field(
        default={},
        description="Names of priorities that resource managers of the 2021-02 interface may use in place of "
        "numbers: NAME=NUMBER,NAME=NUMBER on the command line, a mapping in the settings file.",
    )
    gang_style_2021: Annotated[GangStyle, BeforeValidator(capitalized)] = Field(
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
