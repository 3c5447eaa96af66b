"""Finds what a request names: the resource manager, the partition, and one object of it. What is missing is a 404 that
says what there is."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from itertools import islice
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from schedulerd.core.language.checks import shown
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import ResourceManager

NAME_LENGTH_MAX = 1_024
"""Characters of a name in a query."""
_APPLICATIONS_A_TURN = 2_000
_NAMESPACE_TAG = "namespace"
_NAMED_MAX = 10
"""Names that an error lists."""


class Where(BaseModel):
    """Which partition is meant."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    rm: str = Field(default="", max_length=NAME_LENGTH_MAX)
    """Id of the resource manager; may be left out if only one is registered."""
    partition: str = Field(default="default", max_length=NAME_LENGTH_MAX)
    """Name of the partition."""


class Place(NamedTuple):
    """A partition with its resource manager."""

    rm: ResourceManager
    partition: Partition


def resource_manager(scheduler: Scheduler, rm_id: str) -> ResourceManager:
    """The resource manager with this id, or the only one for ''. Raises `HTTPException` with 404."""
    known = scheduler.cluster.resource_managers
    if rm_id:
        rm = known.get(rm_id)
        if rm is None:
            raise HTTPException(404, f"rm: {shown(rm_id)} is not registered; there are {_some(known)}")
        return rm
    if not known:
        raise HTTPException(404, "No resource manager is registered yet.")
    if len(known) != 1:
        raise HTTPException(404, f"rm: name one of the resource managers with ?rm=: there are {_some(known)}")
    return next(iter(known.values()))


def place(scheduler: Scheduler, where: Where) -> Place:
    """The partition that is meant. Raises `HTTPException` with 404."""
    rm = resource_manager(scheduler, where.rm)
    partition = rm.partition(where.partition)
    if partition is None:
        there = _some(rm.partitions)
        raise HTTPException(404, f"partition: {shown(where.partition)} is none of {rm.rm_id!r}; there are {there}")
    return Place(rm, partition)


def is_current(scheduler: Scheduler, found: Place) -> bool:
    """Whether the partition is still the one of its resource manager: state that was dropped must not be read on."""
    rm = scheduler.cluster.resource_managers.get(found.rm.rm_id)
    return rm is found.rm and rm.partitions.get(found.partition.name) is found.partition


def application_id(found: Place, given: str, namespace: str = "") -> Generator[None, None, str]:
    """The application that is meant: the id of one, or the id that pods of one namespace give it, which is NAMESPACE.ID
    here. Of an application that is not known, what was given. Stops after every `_APPLICATIONS_A_TURN`. Raises
    `HTTPException` with 404 if several namespaces have one."""
    living, ended = found.partition.applications, found.partition.terminated_by_id
    if namespace and ((whole := f"{namespace}.{given}") in living or whole in ended):
        return whole
    for known in (living, ended):
        if given in known:
            return given
        if namespace:
            continue
        ids = yield from ids_of_namespaces(known, given)
        if ids:
            return only(ids, given)
    return given


def only(ids: dict[str, None], given: str) -> str:
    """Raises `HTTPException` with 404 if there are several."""
    if len(ids) > 1:
        raise HTTPException(404, f"application: several namespaces have {shown(given)}; name one of {_some(ids)}")
    return next(iter(ids))


def ids_of_namespaces(
    known: Mapping[str, Application | RejectedApplication], given: str
) -> Generator[None, None, dict[str, None]]:
    """The applications that pods of namespaces give this id. Stops after every `_APPLICATIONS_A_TURN`."""
    found: dict[str, None] = {}
    if not given:
        return found
    ending = f".{given}"
    for number, one in enumerate(list(known.values()), 1):
        if number % _APPLICATIONS_A_TURN == 0:
            yield
        name = one.application_id
        if name.endswith(ending) and name == one.spec.tags.get(_NAMESPACE_TAG, "") + ending:
            found[name] = None
    return found


def application(found: Place, application_id: str) -> Application:
    """Raises `HTTPException` with 404."""
    one = found.partition.applications.get(application_id)
    if one is not None:
        return one
    gone = found.partition.terminated_by_id.get(application_id)
    ended = f"; the last one with that id is {gone.state}" if gone is not None else ""
    if isinstance(gone, RejectedApplication):
        ended += f": {gone.reason}"
    raise HTTPException(404, f"application: {shown(application_id)} is not there{ended}")


def ask(found: Application, key: str) -> Ask:
    """Raises `HTTPException` with 404."""
    one = found.asks.get(key)
    if one is None:
        there = _some(found.asks)
        raise HTTPException(404, f"ask: {shown(key)} is no ask of {shown(found.application_id)}; there are {there}")
    return one


def queue(found: Place, path: str) -> Queue:
    """Raises `HTTPException` with 404."""
    one = found.partition.root.find(path)
    if one is None:
        raise HTTPException(404, f"queue: {shown(path)} does not exist; write its full path, like root.a")
    return one


def _some(names: object) -> str:
    assert isinstance(names, dict)
    said = ", ".join(shown(name) for name in islice(names, _NAMED_MAX))
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return said + more or "none"
