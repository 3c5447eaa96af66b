"""Where messages of 2021-02 are others of ours on the wire, and which of them no method has."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor

from schedulerd._generated.schedulerd.v1 import admin_pb2, callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2


def fields(message: Any) -> list[tuple[int, str, int, bool]]:
    """Number, name, type and whether there are several: all that the wire and its readers know of them."""
    return [(one.number, one.name, one.type, one.is_repeated) for one in message.DESCRIPTOR.fields]


@pytest.mark.parametrize(
    ("of_2021", "ours"),
    [
        (si_2021_pb2.RegisterResourceManagerRequest, si_pb2.RegisterResourceManagerRequest),
        (si_2021_pb2.UpdateConfigurationResponse, admin_pb2.UpdateConfigurationResponse),
    ],
)
def test_a_message_begins_with_that_of_2021(of_2021: Any, ours: Any) -> None:
    assert fields(of_2021) == fields(ours)[: len(fields(of_2021))]


def test_the_arguments_of_predicates_are_the_same_in_all_versions() -> None:
    assert fields(si_2021_pb2.PredicatesArgs) == fields(si_pb2.PredicatesArgs)


def said_in(message: Descriptor, found: dict[str, Descriptor]) -> None:
    """Adds the message and all that it has inside to `found`."""
    if message.full_name not in found:
        found[message.full_name] = message
        for field in message.fields:
            if field.message_type is not None:
                said_in(field.message_type, found)


def test_which_messages_of_2021_no_method_has() -> None:
    found: dict[str, Descriptor] = {}
    for file in (si_pb2, admin_pb2, callback_pb2):
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                said_in(method.input_type, found)
                said_in(method.output_type, found)
    unused = [one.name for one in si_2021_pb2.DESCRIPTOR.message_types_by_name.values() if one.full_name not in found]
    assert sorted(unused) == [
        "AssumedAllocation",
        "ForgotAllocation",
        "PredicatesArgs",
        "ReSyncSchedulerCacheArgs",
        "RegisterResourceManagerRequest",
        "RegisterResourceManagerResponse",
        "UpdateConfigurationRequest",
        "UpdateConfigurationResponse",
    ]
