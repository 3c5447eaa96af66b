"""What the operator hears of calls that are refused, however many there are."""

from __future__ import annotations

from collections.abc import Callable

import grpc
from structlog.testing import capture_logs

from schedulerd.daemon.access.refusals import LINES_MAX, Refusals

INVALID, ABORTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ABORTED


class Seconds:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []

    def call_later(self, delay_seconds: float, call: Callable[[], None]) -> None:
        assert delay_seconds == 1
        self._due.append(call)

    def pass_one(self) -> None:
        due, self._due = self._due, []
        assert len(due) <= 1
        for call in due:
            call()


def tell(refusals: Refusals, code: grpc.StatusCode, times: int = 1) -> None:
    for number in range(times):
        refusals.tell("UpdateNode", code, "why", rm_id=f"rm-{number}", peer="ipv4:127.0.0.1:1")


def test_a_line_names_the_refused_client_and_the_reason() -> None:
    with capture_logs() as lines:
        tell(Refusals(Seconds().call_later), INVALID)
    assert lines == [
        {
            "event": "call refused",
            "log_level": "warning",
            "method": "UpdateNode",
            "code": "invalid_argument",
            "rm_id": "rm-0",
            "peer": "ipv4:127.0.0.1:1",
            "reason": "why",
        }
    ]


def test_of_a_flood_the_first_lines_of_each_second_are_written_and_everything_is_counted() -> None:
    seconds = Seconds()
    refusals = Refusals(seconds.call_later)
    with capture_logs() as lines:
        tell(refusals, INVALID, LINES_MAX + 7)
        tell(refusals, ABORTED, LINES_MAX)
        assert [line["code"] for line in lines] == ["invalid_argument"] * LINES_MAX + ["aborted"] * LINES_MAX
        lines.clear()
        seconds.pass_one()
        assert [(line["event"], line["code"], line["count"]) for line in lines] == [
            ("lines suppressed", "invalid_argument", 7)
        ]
        lines.clear()
        seconds.pass_one()
        assert lines == []
        tell(refusals, INVALID)
        assert [line["event"] for line in lines] == ["call refused"]
    assert refusals.counts == {("UpdateNode", "invalid_argument"): LINES_MAX + 8, ("UpdateNode", "aborted"): LINES_MAX}
