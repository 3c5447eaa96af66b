"""What stands in the log of a message or a long text: nothing that is secret, and no more than a line holds."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest
import structlog
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.daemon.runtime import logs
from schedulerd.daemon.runtime.redaction import ITEMS_MAX, SECRET, TEXT_CHARACTERS_MAX, loggable

FIELD = descriptor_pb2.FieldDescriptorProto


def a_message_with_secrets() -> Message:
    """Of a type made here: a text, a number, a list, a map and a message, each with and without the option."""
    file = descriptor_pb2.FileDescriptorProto(
        name="redaction_test.proto", package="redaction", syntax="proto3", dependency=["si/v1/si.proto"]
    )
    holder = file.message_type.add(name="Holder")
    for name in ("Pairs", "SecretPairs"):
        entry = holder.nested_type.add(name=f"{name}Entry", options=descriptor_pb2.MessageOptions(map_entry=True))
        entry.field.add(name="key", number=1, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
        entry.field.add(name="value", number=2, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    kinds: dict[str, dict[str, Any]] = {
        "text": {"type": FIELD.TYPE_STRING, "label": FIELD.LABEL_OPTIONAL},
        "number": {"type": FIELD.TYPE_INT64, "label": FIELD.LABEL_OPTIONAL},
        "texts": {"type": FIELD.TYPE_STRING, "label": FIELD.LABEL_REPEATED},
        "pairs": {"type": FIELD.TYPE_MESSAGE, "label": FIELD.LABEL_REPEATED, "type_name": "PairsEntry"},
        "inner": {"type": FIELD.TYPE_MESSAGE, "label": FIELD.LABEL_OPTIONAL, "type_name": ".redaction.Holder"},
    }
    for at, (name, kind) in enumerate(kinds.items(), start=1):
        holder.field.add(name=name, number=at, **kind)
        secret = holder.field.add(name=f"secret_{name}", number=at + 10, **kind)
        secret.options.Extensions[si_pb2.si_secret] = True
        if name == "pairs":
            secret.type_name = "SecretPairsEntry"
    pool = descriptor_pool.Default()
    pool.Add(file)
    holder_type = GetMessageClass(pool.FindMessageTypeByName("redaction.Holder"))
    filled = {"text": "shown", "number": 7, "texts": ["shown"], "pairs": {"k": "shown"}}
    hidden = {
        "secret_text": "hunter2",
        "secret_number": 1234,
        "secret_texts": ["hunter2"],
        "secret_pairs": {"hunter2": "hunter2"},
        "secret_inner": {"text": "hunter2"},
    }
    return holder_type(**filled, **hidden, inner={**filled, **hidden})


SECRET_FIELDS = {
    "secret_text": SECRET,
    "secret_number": SECRET,
    "secret_texts": SECRET,
    "secret_pairs": SECRET,
    "secret_inner": SECRET,
}
SHOWN_FIELDS = {"text": "shown", "number": 7, "texts": ["shown"], "pairs": {"k": "shown"}}


def test_fields_with_the_option_are_not_shown_wherever_they_are(stream: io.StringIO) -> None:
    message = a_message_with_secrets()
    assert loggable(message) == {**SHOWN_FIELDS, **SECRET_FIELDS, "inner": {**SHOWN_FIELDS, **SECRET_FIELDS}}

    logs.configure("info", "json", stream)
    structlog.stdlib.get_logger("test").info("a message", request=message, all_of_them=[message])
    logging.getLogger("test").info("another", extra={"request": message})
    assert [json.loads(line)["request"]["secret_text"] for line in stream.getvalue().splitlines()] == [SECRET, SECRET]
    assert "hunter2" not in stream.getvalue()


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (si_pb2.RegisterResourceManagerRequest(config="c", extraConfig={"k": "v"}), {"config", "extraConfig"}),
        (si_pb2.UpdateConfigurationRequest(config="c", extraConfig={"k": "v"}), {"config", "extraConfig"}),
        (admin_pb2.ValidateConfigurationRequest(config="c"), {"config"}),
        (admin_pb2.UpdateConfigurationResponse(oldConfig="c"), {"oldConfig"}),
    ],
    ids=lambda one: one.DESCRIPTOR.name if isinstance(one, Message) else "",
)
def test_configurations_are_secret(message: Message, fields: set[str]) -> None:
    assert loggable(message) == dict.fromkeys(fields, SECRET)


def test_long_texts_are_cut_and_long_lists_counted(stream: io.StringIO) -> None:
    full = "x" * TEXT_CHARACTERS_MAX
    assert loggable(full) == full
    assert loggable(f"{full}y") == f"{full}... ({TEXT_CHARACTERS_MAX + 1} characters)"
    asks = [si_pb2.AllocationAsk(allocationKey=str(number)) for number in range(ITEMS_MAX + 5)]
    shown = loggable(si_pb2.AllocationRequest(rmID="rm", asks=asks))
    assert isinstance(shown, dict)
    assert shown == {
        "rmID": "rm",
        "asks": [*({"allocationKey": str(number)} for number in range(ITEMS_MAX)), "... 5 more"],
    }
    del asks[ITEMS_MAX:]
    assert loggable(si_pb2.AllocationRequest(asks=asks)) == {"asks": shown["asks"][:ITEMS_MAX]}
    tags = loggable(si_pb2.AllocationAsk(tags={str(number): "v" for number in range(ITEMS_MAX + 5)}))
    assert isinstance(tags, dict)
    assert len(tags["tags"]) == ITEMS_MAX + 1
    assert "... 5 more" in tags["tags"]

    logs.configure("info", "json", stream)
    structlog.stdlib.get_logger("test").info("ask rejected", allocation_key="k" * 1_000_000)
    assert len(stream.getvalue()) < 2 * TEXT_CHARACTERS_MAX
