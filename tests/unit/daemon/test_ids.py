"""Allocation UUIDs."""

from __future__ import annotations

import uuid

from schedulerd.daemon.ids import uuid_source


def test_they_are_random_uuids_of_version_4() -> None:
    new_uuid = uuid_source()
    made = [new_uuid() for _ in range(2000)]
    assert len(set(made)) == len(made)
    for text in made:
        parsed = uuid.UUID(text)
        assert (parsed.version, parsed.variant, str(parsed)) == (4, uuid.RFC_4122, text)


def test_two_daemons_do_not_make_the_same() -> None:
    assert uuid_source()() != uuid_source()()
