"""Access lists of the queue file: `*`, `users`, `users groups` or ` groups`, each a list with commas.

A malformed name is an error: a list that silently ignored an entry would give or take rights unnoticed (SEMANTICS H).
Names from OIDC, LDAP and Kubernetes service accounts are all well-formed.
"""

from __future__ import annotations

import re

from schedulerd.core.language.specs import Acl
from schedulerd.settings.problems import shorten

WILDCARD = "*"
USER_NAME = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*\$?")
GROUP_NAME = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*")
NAME_RULE = "a name starts with a letter or _ and goes on with letters, digits and : # / @ . _ -"


def parse_acl(text: str) -> Acl:
    """Parses an access list. Empty means no user; `*` in place of the users or of the groups means every user.

    Raises ValueError with a sentence that says what is allowed.
    """
    fields = text.split()
    if len(fields) > 2:
        raise ValueError(
            f"{len(fields)} lists found; write at most two, users and groups, with a space between them "
            'and none after a comma, like "alice,bob dev,ops"'
        )
    if len(fields) == 2 and fields[0].endswith(","):
        raise ValueError('a space after a comma would end the list of users; write names as in "alice,bob dev,ops"')
    if len(fields) == 1 and text[0].isspace():
        fields.insert(0, "")
    users, groups = (*map(_names, fields), [], [])[:2]
    _check("user", users, USER_NAME)
    _check("group", groups, GROUP_NAME)
    if [WILDCARD] in (users, groups):
        return Acl(everybody=True)
    return Acl(users=frozenset(users), groups=frozenset(groups))


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _check(kind: str, names: list[str], form: re.Pattern[str]) -> None:
    for name in names:
        if name == WILDCARD and len(names) > 1:
            raise ValueError(f"* stands for every user and must be the only {kind} in its list")
        if name != WILDCARD and not form.fullmatch(name):
            raise ValueError(f"{shorten(name)!r} is not a {kind} name: {NAME_RULE}")
