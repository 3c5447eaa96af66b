"""Allocation UUIDs."""

from __future__ import annotations

import uuid

from schedulerd.ids import random_seed, uuid_source


def test_they_are_random_uuids_of_version_4() -> None:
    new_uuid = uuid_source(random_seed())
    made = [new_uuid() for _ in range(2000)]
    assert len(set(made)) == len(made)
    for text in made:
        parsed = uuid.UUID(text)
        assert (parsed.version, parsed.variant, str(parsed)) == (4, uuid.RFC_4122, text)


def test_two_daemons_do_not_make_the_same() -> None:
    assert uuid_source(random_seed())() != uuid_source(random_seed())()


def test_the_same_seed_makes_the_same_in_every_process_and_version_of_python() -> None:
    new_uuid = uuid_source(2**127 + 1)
    assert [new_uuid(), new_uuid()] == ["80d1df8f-73dc-4f1f-a9d4-4652a2d44973", "f6224201-6957-4348-9c63-aff938285a6c"]
