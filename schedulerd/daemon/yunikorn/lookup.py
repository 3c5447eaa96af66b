"""Finds what a path names: the partition, queue, application or node, or the error that the peer gives."""

from __future__ import annotations

import re
from itertools import islice
from urllib.parse import unquote_plus

from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.yunikorn.call import Call
from schedulerd.daemon.yunikorn.errors import (
    APPLICATION_NOT_FOUND,
    INVALID_GROUP,
    INVALID_QUEUE,
    INVALID_USER,
    NODE_NOT_FOUND,
    PARTITION_NOT_FOUND,
    QUEUE_NOT_FOUND,
    PeerError,
)

NAMED_MAX = 20
"""Maximum number of resource managers that an error names."""

_QUEUE_PART = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}", re.ASCII)
_USER = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*\$?", re.ASCII)
_GROUP = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*", re.ASCII)
_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_UINT64_MAX = 2**64 - 1


def resource_manager(call: Call) -> ResourceManager:
    """The resource manager of `rm` in the query; without it the only one that there is. Raises `PeerError`."""
    known = call.rest.cluster.resource_managers
    asked = call.query("rm")
    if not asked and len(known) == 1:
        return next(iter(known.values()))
    if asked in known:
        return known[asked]
    if not known:
        raise PeerError(404, PARTITION_NOT_FOUND)
    names = ", ".join(quoted(one) for one in islice(known, NAMED_MAX)) + (", ..." if len(known) > NAMED_MAX else "")
    if asked:
        raise PeerError(404, f"Resource manager not found: rm is {quoted(asked[:256])}; registered are {names}")
    raise PeerError(404, f"{PARTITION_NOT_FOUND}: each resource manager has its own; name one with ?rm=, of {names}")


def partition(call: Call) -> Partition:
    """Raises `PeerError`."""
    found = resource_manager(call).partitions.get(call.variables["partition"])
    if found is None:
        raise PeerError(404, PARTITION_NOT_FOUND)
    return found


def queue_name(call: Call) -> str:
    """The queue that the path names, which is a legal name. Raises `PeerError`."""
    name = decoded_again(call.variables["queue"])
    if not all(_QUEUE_PART.fullmatch(part) for part in name.split(".")):
        raise PeerError(400, INVALID_QUEUE)
    return name


def queue(call: Call, root: Queue) -> Queue:
    """Raises `PeerError`."""
    found = root.find(queue_name(call))
    if found is None:
        raise PeerError(404, QUEUE_NOT_FOUND)
    return found


def application(call: Call, where: Partition) -> Application:
    """The living application, in the queue that the path names if it names one. Raises `PeerError`."""
    leaf = queue(call, where.root) if call.variables.get("queue") else None
    found = where.applications.get(call.variables["application"])
    if found is None or leaf not in (None, found.queue):
        raise PeerError(404, APPLICATION_NOT_FOUND)
    return found


def node(call: Call, where: Partition) -> Node:
    """Raises `PeerError`."""
    found = where.nodes.get(call.variables["node"])
    if found is None:
        raise PeerError(404, NODE_NOT_FOUND)
    return found


def user_name(call: Call) -> str:
    """A legal name. Raises `PeerError`."""
    name = decoded_again(call.variables["user"])
    if not _USER.fullmatch(name):
        raise PeerError(400, INVALID_USER)
    return name


def group_name(call: Call) -> str:
    """A legal name. `*`, which counts for users of whose groups no limit names any, is none. Raises `PeerError`."""
    name = decoded_again(call.variables["group"])
    if not _GROUP.fullmatch(name):
        raise PeerError(400, INVALID_GROUP)
    return name


def decoded_again(name: str) -> str:
    """Names of queues, users and groups are decoded a second time, as values of a form. Raises `PeerError`."""
    if bad := _ESCAPE.search(name):
        raise PeerError(400, f"invalid URL escape {quoted(bad.group())}")
    return unquote_plus(name)


def whole_number(call: Call, key: str) -> int | None:
    """The number at a query key, without sign; None if it is not there. Raises `PeerError`."""
    text = call.query(key)
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise PeerError(400, f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax")
    if len(text) > 4_000 or int(text) > _UINT64_MAX:
        raise PeerError(400, f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return int(text)


_PLAIN_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(text: str) -> str:
    """A text in quotes as Go writes it in errors."""
    return f'"{"".join(_PLAIN_ESCAPES.get(one) or (one if one.isprintable() else _code(one)) for one in text)}"'


def _code(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
