"""Finds pods, applications, queues and nodes by name."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import NamedTuple

from schedulerd.core.language.ask_tags import pod_of
from schedulerd.daemon.admin.api.finding import Place, ids_of_namespaces
from schedulerd.daemon.admin.ui.addresses import Addresses
from schedulerd.daemon.admin.ui.texts import visible

FOUND_MAX = 20
"""Things of each kind that are listed."""
SCANNED_MAX = 50_000
"""Maximum number of asks that a search for a pod visits."""
_A_TURN = 256


class Found(NamedTuple):
    """Something with a name that was looked for."""

    kind: str
    name: str
    href: str
    about: str


def search(place: Place, links: Addresses, wanted: str) -> Generator[None, None, list[Found]]:
    """What has exactly this name, or else what has it in its name. Stops after every few objects."""
    if not wanted:
        return []
    partition = place.partition
    exact: list[Found] = []
    if wanted in partition.nodes:
        exact.append(Found("node", visible(wanted), links.node(wanted), ""))
    if wanted in partition.applications or wanted in partition.terminated_by_id:
        exact.append(Found("application", visible(wanted), links.application(wanted), ""))
    of_namespaces = yield from ids_of_namespaces(partition.applications, wanted)
    if len(of_namespaces) == 1:
        exact += [Found("application", visible(one), links.application(one), "") for one in of_namespaces]
    if (queue := partition.root.find(wanted)) is not None:
        exact.append(Found("queue", visible(queue.written), links.queue(queue.written), ""))
    if exact:
        return exact
    part = wanted.lower()
    queues = [one for one in partition.root.walk() if part in one.path]
    found = [Found("queue", visible(one.written), links.queue(one.written), "") for one in queues[:FOUND_MAX]]
    yield
    ids = [one for one in list(partition.nodes) if part in one.lower()]
    found += [Found("node", visible(one), links.node(one), "") for one in sorted(ids)[:FOUND_MAX]]
    yield
    apps = [one for one in list(partition.applications.values()) if part in one.application_id.lower()]
    found += [
        Found("application", visible(one.application_id), links.application(one.application_id), one.state.value)
        for one in apps[:FOUND_MAX]
    ]
    yield
    return found + (yield from _pods(place, links, wanted))


def _pods(place: Place, links: Addresses, wanted: str) -> Generator[None, None, list[Found]]:
    found: list[Found] = []
    part, left, turn = wanted.lower(), SCANNED_MAX, 0
    for application in list(place.partition.applications.values()):
        asks = islice(list(application.asks.values()), left)
        while some := list(islice(asks, _A_TURN)):
            left -= len(some)
            turn += len(some)
            if turn >= _A_TURN:
                turn = 0
                yield
            matching = [(name, one) for one in some if part in (name := pod_of(one.spec.tags) or one.key).lower()]
            for name, ask in matching:
                state = "waiting" if ask.pending or ask.swaps else "placed"
                about = f"{state}, of {application.application_id}"
                href = links.ask(application.application_id, ask.key)
                found.append(Found("pod", visible(name), href, visible(about)))
                if name.lower() in (part, f"default/{part}"):
                    return [found[-1]]
                if len(found) >= FOUND_MAX:
                    return found
        if not left:
            break
    return found
