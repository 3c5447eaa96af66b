"""Routes of the usage of users and groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from schedulerd.core.state.partition import Partition
from schedulerd.daemon.runtime.json_stream import Listed
from schedulerd.daemon.yunikorn import lookup
from schedulerd.daemon.yunikorn.call import Call
from schedulerd.daemon.yunikorn.errors import GROUP_NOT_FOUND, USER_NOT_FOUND, PeerError
from schedulerd.daemon.yunikorn.go_json import Fields
from schedulerd.daemon.yunikorn.usage import Account, accounts, group_object, user_object


async def users(call: Call) -> object:
    """What every user uses."""
    return await _all_usage(call, user_object, groups=False)


async def groups(call: Call) -> object:
    """What every group uses that a limit names."""
    return await _all_usage(call, group_object, groups=True)


async def user(call: Call) -> object:
    """What one user uses."""
    return await _one_usage(call, lookup.user_name(call), user_object, USER_NOT_FOUND, groups=False)


async def group(call: Call) -> object:
    """What one group uses."""
    return await _one_usage(call, lookup.group_name(call), group_object, GROUP_NOT_FOUND, groups=True)


UsageObject: TypeAlias = Callable[[Partition, Account], Fields]


async def _all_usage(call: Call, shown: UsageObject, *, groups: bool) -> object:
    partition = lookup.partition(call)
    found = await accounts(partition, call.work.breathe, groups=groups)
    call.check_size(sum(len(one.queues) for one in found.values()), "/api/v1/users")
    return Listed(shown(partition, one) for one in found.values())


async def _one_usage(call: Call, name: str, shown: UsageObject, missing: str, *, groups: bool) -> object:
    partition = lookup.partition(call)
    found = await accounts(partition, call.work.breathe, groups=groups, only=name)
    if name not in found:
        raise PeerError(404, missing)
    return shown(partition, found[name])
