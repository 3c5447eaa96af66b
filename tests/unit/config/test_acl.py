from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.config.acl import parse_acl
from schedulerd.core.language.specs import Acl
from tests.loops import each_row

USERS = st.from_regex(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]{0,8}\$?", fullmatch=True)
GROUPS = st.from_regex(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]{0,8}", fullmatch=True)


@each_row(
    ("text", "users", "groups"),
    [
        ("", "", ""),
        (" ", "", ""),
        ("   ", "", ""),
        ("bob", "bob", ""),
        ("bob ", "bob", ""),
        (" dev", "", "dev"),
        ("bob dev", "bob", "dev"),
        ("bob,ann dev,ops", "ann bob", "dev ops"),
        ("bob,,ann,", "ann bob", ""),
        ("svc$", "svc$", ""),
        ("system:serviceaccount:ml:trainer", "system:serviceaccount:ml:trainer", ""),
        ("u#1/x.y-z@corp.example.com oidc:/groups/a#b.c@d", "u#1/x.y-z@corp.example.com", "oidc:/groups/a#b.c@d"),
    ],
)
def test_users_and_groups(text: str, users: str, groups: str) -> None:
    assert parse_acl(text) == Acl(users=frozenset(users.split()), groups=frozenset(groups.split()))


@pytest.mark.parametrize("text", ["*", " *", "* ", "bob *", "* dev"])
def test_the_wildcard_is_every_user(text: str) -> None:
    assert parse_acl(text) == Acl(everybody=True)


@each_row(
    ("text", "message"),
    [
        ("a b c", "3 lists found; write at most two"),
        ("ann, bob", "a space after a comma would end the list of users"),
        ("ann,*", "* stands for every user and must be the only user in its list"),
        ("ann *,dev", "* stands for every user and must be the only group in its list"),
        ("1ann", "'1ann' is not a user name: a name starts with a letter or _"),
        ("a!n", "'a!n' is not a user name"),
        ("ann dev$", "'dev$' is not a group name"),
        ("ann 9dev", "'9dev' is not a group name"),
        ("ärger", "'ärger' is not a user name"),
    ],
)
def test_a_bad_entry_is_never_ignored(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_acl(text)


@given(st.lists(USERS, max_size=4), st.lists(GROUPS, max_size=4), st.text(max_size=6))
def test_an_access_list_allows_exactly_the_users_it_names(users: list[str], groups: list[str], other: str) -> None:
    acl = parse_acl(f"{','.join(users)} {','.join(groups)}")
    assert all(acl.allows(user, ()) for user in users)
    assert all(acl.allows("nobody in particular", ("x y", group)) for group in groups)
    assert acl.allows(other, (other,)) == (other in users or other in groups)
