"""`docs/interface.md` has every method, message, field, enum value and constant, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FileDescriptor

from schedulerd._generated.schedulerd.v1 import admin_pb2, callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd._generated.si.v2022_12 import event_pb2
from schedulerd.core.applications.rules.namespace_tags import GUARANTEED_TAG, QUOTA_TAG
from schedulerd.core.state.actions.application_states import STATE_AWARE_DISABLE_TAG
from schedulerd.core.state.model.node import HOSTNAME_ATTRIBUTES, READY_ATTRIBUTE
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from schedulerd.wire.items import NODE_PARTITION_ATTRIBUTE
from tests.loops import each_row

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "interface.md").read_text(encoding="utf-8")
FILES: list[FileDescriptor] = [
    module.DESCRIPTOR for module in (si_pb2, si_2021_pb2, event_pb2, admin_pb2, callback_pb2)
]
HEADING = re.compile(r"^### (?P<title>[^\n]+)\n(?P<body>.*?)(?=^## |^### |\Z)", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"(?:Options of )?`([\w.]+)`")
CELLS = re.compile(r"(?<!\\)\|")

CONSTANTS = {
    "ARCH": "si/arch",
    "HostName": "si/hostname",
    "RackName": "si/rackname",
    "OS": "si/os",
    "InstanceType": "si/instance-type",
    "FailureDomainZone": "si/zone",
    "FailureDomainRegion": "si/region",
    "LocalImages": "si/local-images",
    "NodePartition": "si/node-partition",
    "ApplicationID": "si/application-id",
    "ContainerImage": "si/container-image",
    "ContainerPorts": "si/container-ports",
    "DomainK8s": "kubernetes.io/",
    "DomainYuniKorn": "yunikorn.apache.org/",
    "GroupMeta": "meta/",
    "GroupLabel": "label/",
    "GroupAnnotation": "annotation/",
    "KeyPodName": "podName",
    "KeyNamespace": "namespace",
    "KeyRequiredNode": "requiredNode",
    "KeyAllowPreemption": "allowPreemption",
    "CreationTime": "creationTime",
    "Memory": "memory",
    "CPU": "vcore",
    "AppTagNamespaceResourceQuota": "namespace.resourcequota",
    "AppTagNamespaceResourceGuaranteed": "namespace.resourceguaranteed",
    "AppTagStateAwareDisable": "application.stateaware.disable",
    "NodeReadyAttribute": "ready",
}
"""Of all three specifications, which no descriptor has."""


def rows(body: str) -> list[list[str]]:
    """The cells of the tables, without the lines above them."""
    lines = [line for line in body.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in CELLS.split(line)[1:-1]] for line in lines]
    return [
        row for at, row in enumerate(cells) if not is_rule(row) and not (cells[at + 1 :] and is_rule(cells[at + 1]))
    ]


def is_rule(row: list[str]) -> bool:
    return set("".join(row)) == {"-"}


SECTIONS = {match["title"]: rows(match["body"]) for match in HEADING.finditer(TEXT)}


def described() -> dict[str, list[str]]:
    """The first cells of each section that is about something of a package."""
    return {
        name[1]: [row[0].strip("`") for row in found]
        for title, found in SECTIONS.items()
        if (name := NAME.fullmatch(title)) is not None
    }


def there_is() -> dict[str, list[str]]:
    """What the descriptors have: services with methods, messages with fields, enums with values, options."""
    found: dict[str, list[str]] = {}
    for file in FILES:
        for service in file.services_by_name.values():
            found[service.full_name] = [method.name for method in service.methods]
        for enum in file.enum_types_by_name.values():
            found[enum.full_name] = [value.name for value in enum.values]
        for message in file.message_types_by_name.values():
            found |= dict(_of_message(message))
        if file.extensions_by_name:
            found[file.package] = list(file.extensions_by_name)
    return found


def _of_message(message: Descriptor) -> Iterator[tuple[str, list[str]]]:
    yield message.full_name, [field.name for field in message.fields]
    for nested in message.nested_types:
        if not nested.GetOptions().map_entry:
            yield from _of_message(nested)
    enums: list[EnumDescriptor] = list(message.enum_types)
    for enum in enums:
        yield enum.full_name, [value.name for value in enum.values]


def test_every_service_message_and_enum_has_a_section_and_no_other() -> None:
    assert set(described()) == set(there_is())


@each_row("name", sorted({*there_is(), *described()}))
def test_every_method_field_and_value_has_a_row_and_no_other(name: str) -> None:
    assert described().get(name) == there_is().get(name)


def test_every_constant_has_a_row_and_no_other() -> None:
    found = {constant.strip("`"): value.strip("`") for constant, value, _ in SECTIONS["Constants"]}
    assert found == CONSTANTS


def test_constants_are_what_the_scheduler_looks_for() -> None:
    used = {
        "NodePartition": NODE_PARTITION_ATTRIBUTE,
        "HostName": HOSTNAME_ATTRIBUTES[0],
        "NodeReadyAttribute": READY_ATTRIBUTE,
        "AppTagNamespaceResourceQuota": QUOTA_TAG,
        "AppTagNamespaceResourceGuaranteed": GUARANTEED_TAG,
        "AppTagStateAwareDisable": STATE_AWARE_DISABLE_TAG,
    }
    assert used == {name: CONSTANTS[name] for name in used}
    assert CONSTANTS["DomainYuniKorn"] + CONSTANTS["KeyRequiredNode"] == REQUIRED_NODE_TAG


def test_every_row_says_something() -> None:
    assert [row for found in SECTIONS.values() for row in found if len(row) < 2 or not all(row)] == []


def test_links_lead_to_pages() -> None:
    for page in re.findall(r"\]\(([\w-]+\.md)", TEXT):
        assert (DOCS / page).exists(), page
