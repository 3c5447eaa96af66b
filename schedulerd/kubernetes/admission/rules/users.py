"""The user of a pod: the annotation `user.info`, who may write it, and what is written where nobody did.

The shim believes the annotation: limits, access lists and placement rules of queues go by it. So its value is the user
of the request, or comes from somebody who is trusted to make pods for others, such as a controller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from schedulerd.kubernetes.admission.rules.patterns import Patterns
from schedulerd.kubernetes.admission.rules.review import UserInfo
from schedulerd.kubernetes.metadata.names import OWN_PREFIX, PREFIXES, USER_INFO
from schedulerd.settings.problems import shorten

WRITTEN = OWN_PREFIX + USER_INFO
READ = tuple(prefix + USER_INFO for prefix in PREFIXES)
VALUE_BYTES_MAX = 65_536
"""Of an annotation; all annotations of an object may have 262,144."""
SERVICE_ACCOUNT = "system:serviceaccount:"


class _Value(msgspec.Struct):
    user: str
    groups: tuple[str, ...] | None = None


_VALUE = msgspec.json.Decoder(_Value)


@dataclass(frozen=True, slots=True)
class TrustedUsers:
    """Who may write any user, or none, into pods."""

    users: Patterns
    groups: Patterns
    service_accounts: frozenset[tuple[str, str]]
    """Namespace and name."""

    def trusts(self, user: UserInfo) -> bool:
        if self.users.matches(user.username) or service_account(user) in self.service_accounts:
            return True
        return any(map(self.groups.matches, user.groups or ()))


def service_account(user: UserInfo) -> tuple[str, str] | None:
    """Namespace and name; None for somebody else."""
    if not user.username.startswith(SERVICE_ACCOUNT):
        return None
    namespace, _, name = user.username.removeprefix(SERVICE_ACCOUNT).partition(":")
    return namespace, name


def value_of(user: UserInfo) -> tuple[str, str]:
    """The annotation for a user, and a warning if not all of its groups fit in."""
    groups = list(user.groups or ())
    value = _encoded(user.username, groups)
    if len(value) <= VALUE_BYTES_MAX:
        return value.decode(), ""
    kept, left = 0, VALUE_BYTES_MAX - len(_encoded(user.username, []))
    while kept < len(groups) and (left := left - len(msgspec.json.encode(groups[kept])) - 1) >= 0:
        kept += 1
    warning = f"{WRITTEN} has only the first {kept} of your {len(groups)} groups: it is {VALUE_BYTES_MAX} bytes at most"
    return _encoded(user.username, groups[:kept]).decode(), warning


def _encoded(name: str, groups: list[str]) -> bytes:
    return msgspec.json.encode({"user": name, "groups": groups})


def said(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations about the user that are not empty, by their names."""
    return {key: annotations[key] for key in READ if annotations.get(key) not in (None, "")}


def forged(new: Mapping[str, Any], old: Mapping[str, Any], user: UserInfo) -> Iterator[str]:
    """Names of the annotations about a user that this user may not have written.

    A user may write themselves, with all their groups and no others, and leave what was there before. No pod has a key
    with "=" in it, but an operator may join key and value by it (Spark's does), and what is read is split at the first.
    """
    for key, value in new.items():
        name, joined, _ = key.partition("=")
        if name not in READ or value == old.get(key) or (not joined and value in (None, "")):
            continue
        if joined or not _names(value, user):
            yield name


def refusal(keys: list[str], user: UserInfo, where: str) -> str:
    account = service_account(user)
    setting = "--trusted-users" if account is None else f"--trusted-service-accounts {'/'.join(account)}"
    return (
        f"{where}: annotation {', '.join(keys)} names somebody else than {shorten(user.username)!r}, who sent the "
        f"request; remove it, or let an administrator trust this account ({setting} of schedulerd admission)"
    )


def _names(value: object, user: UserInfo) -> bool:
    if not isinstance(value, str) or len(value) > 2 * VALUE_BYTES_MAX:
        return False
    if value == value_of(user)[0]:
        return True
    try:
        named = _VALUE.decode(value)
    except (ValueError, RecursionError):
        return False
    return named.user == user.username and set(named.groups or ()) == set(user.groups or ())
