"""Asks the daemon that leads what a queue file would change, within a bound of time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import grpc

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc
from schedulerd.client.channel import open_channel
from schedulerd.kubernetes.auth import AccessUnusable
from schedulerd.kubernetes.auth.files import FileReader

IMPACT_SECONDS = 2.0


class ImpactUnknown(Exception):
    """The daemon did not tell; the text says why."""


@dataclass(frozen=True, slots=True)
class Impact:
    refusal: str
    """Why the daemon would not take the file; empty if it would."""
    changes: tuple[str, ...]
    """What would change for queues and running work, as sentences."""


@dataclass(frozen=True, slots=True)
class DaemonAddress:
    """Where the daemon is. Files are read for each call, so that they may be replaced."""

    target: str
    """HOST:PORT of the daemon that leads, or unix:/PATH."""
    rm_id: str
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


async def ask_impact(address: DaemonAddress, text: str, seconds: float = IMPACT_SECONDS) -> Impact:
    """Raises ImpactUnknown, at the latest after so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            answer = await _ask(address, text, seconds)
    except TimeoutError:
        raise ImpactUnknown(f"the daemon at {address.target} has not answered within {seconds:g} s") from None
    except AccessUnusable as error:
        raise ImpactUnknown(str(error)) from error
    except grpc.aio.AioRpcError as error:
        reason = error.details() or error.code().name
        raise ImpactUnknown(f"the daemon at {address.target} does not tell: {reason}") from error
    if not answer.allowed:
        return Impact(answer.reason, ())
    return Impact("", tuple(one.message for one in answer.impact))


async def _ask(address: DaemonAddress, text: str, seconds: float) -> admin_pb2.ValidateConfigurationResponse:
    async with open_channel(address.target, await _credentials(address)) as channel:
        stub = admin_pb2_grpc.AdminStub(channel)
        request = admin_pb2.ValidateConfigurationRequest(config=text, rmID=address.rm_id)
        answer: admin_pb2.ValidateConfigurationResponse = await stub.ValidateConfiguration(request, timeout=seconds)
        return answer


async def _credentials(address: DaemonAddress) -> grpc.ChannelCredentials | None:
    if address.ca_file is None:
        return None
    read = FileReader()
    ca = await read(address.ca_file)
    if address.cert_file is None or address.key_file is None:
        return grpc.ssl_channel_credentials(ca)
    return grpc.ssl_channel_credentials(ca, await read(address.key_file), await read(address.cert_file))
