"""One client cannot hold all of what clients share."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from schedulerd.daemon.runtime.shares import CLIENTS_MIN, NoneLeft, Shared


@pytest.mark.parametrize(("total", "each"), [(1, 1), (4, 1), (5, 2), (100, 25)])
def test_a_client_gets_a_quarter_and_others_the_rest(total: int, each: int) -> None:
    shared = Shared(total, "streams are open")
    assert shared.each_max == each
    with ExitStack() as holding:
        for number in range(total):
            holding.enter_context(shared.held(str(number // each)))
            if (number + 1) % each == 0 and number + 1 < total:
                with pytest.raises(NoneLeft, match=f"^{each} streams are open by this client already, a quarter"):
                    holding.enter_context(shared.held(str(number // each)))
        for client in ("0", "another", None):
            with pytest.raises(NoneLeft, match=f"^{total} streams are open already, by all clients$"):
                holding.enter_context(shared.held(client))
    with shared.held("0"):
        pass
    assert CLIENTS_MIN == 4


def test_a_client_without_a_share_may_hold_all() -> None:
    shared = Shared(8, "looks are asked for")
    with ExitStack() as holding:
        for _ in range(8):
            holding.enter_context(shared.held(None))


def test_what_is_given_back_leaves_nothing_behind() -> None:
    shared = Shared(8, "streams are open")
    for number in range(1000):
        with shared.held(str(number)):
            pass
    assert not shared._held
