"""What waits for a stream: in order, counted in bytes, and there until it has been taken."""

from __future__ import annotations

import pytest

from schedulerd.daemon.sessions import outbox as module
from schedulerd.daemon.sessions.outbox import Outbox


@pytest.fixture(autouse=True)
def small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MESSAGE_BYTES_MAX", 10)


def sent(outbox: Outbox) -> list[bytes]:
    messages = []
    while (message := outbox.head()) is not None:
        messages.append(message)
        outbox.sent()
    return messages


def test_small_responses_are_joined_up_to_the_bound_and_in_order() -> None:
    outbox = Outbox()
    for payload in (b"aaaa", b"bbbb", b"cc", b"d", b"a long one by itself", b"e", b"f"):
        outbox.put(payload)
    assert outbox.size_bytes == 33
    assert sent(outbox) == [b"aaaabbbbcc", b"d", b"a long one by itself", b"ef"]
    assert (outbox.size_bytes, len(outbox)) == (0, 0)


def test_responses_whose_order_counts_are_not_joined() -> None:
    outbox = Outbox(joins=False)
    outbox.resume(0)
    for payload in (b"a", b"b", b"c"):
        outbox.put(payload)
    assert sent(outbox) == [b"a", b"b", b"c"]
    outbox.put(b"d")
    outbox.resume(1)
    assert sent(outbox) == [b"b", b"c", b"d"], "not when they are sent again either"


def test_what_was_picked_up_but_not_taken_is_there_for_the_next_writer() -> None:
    outbox = Outbox()
    outbox.put(b"aa")
    assert outbox.head() == b"aa"
    outbox.put(b"bb")
    assert outbox.head() == b"aabb", "a writer that was cancelled before sent() has taken nothing"


def test_what_is_put_while_a_message_is_on_its_way_is_not_lost() -> None:
    outbox = Outbox()
    outbox.put(b"aa")
    assert outbox.head() == b"aa"
    outbox.put(b"bb")
    outbox.sent()
    assert sent(outbox) == [b"bb"]


def test_cleared_while_a_message_is_on_its_way() -> None:
    outbox = Outbox()
    outbox.put(b"aa")
    outbox.head()
    outbox.clear()
    outbox.put(b"bb")
    outbox.sent()
    assert (outbox.size_bytes, sent(outbox)) == (2, [b"bb"])


def test_a_writer_that_waits_is_notified() -> None:
    outbox = Outbox()
    assert not outbox.changed.is_set()
    outbox.put(b"a")
    assert outbox.changed.is_set()
