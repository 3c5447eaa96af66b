"""Volumes of a pod's spec: claims, and disks that two pods of one node cannot share (core/v1)."""

from __future__ import annotations

import msgspec


class ClaimSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    claim_name: str = ""


class EphemeralSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A claim that is made for the pod, with the name `<pod>-<volume>`."""


class GceDisk(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pd_name: str = ""
    read_only: bool = False


class EbsVolume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    volume_id: str = msgspec.field(default="", name="volumeID")


class IscsiVolume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    iqn: str = ""
    read_only: bool = False


class RbdVolume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    monitors: tuple[str, ...] | None = None
    pool: str = ""
    image: str = ""
    read_only: bool = False


class Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """All sources but these (ConfigMaps, empty directories, ...) can be had on every node."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    gce_persistent_disk: GceDisk | None = None
    aws_elastic_block_store: EbsVolume | None = None
    iscsi: IscsiVolume | None = None
    rbd: RbdVolume | None = None
