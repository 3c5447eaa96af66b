"""The ConfigMap with the queue files: what is read, what is refused, and what is told about the impact."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterator

import pytest

from schedulerd.admission import QueueFileReader
from schedulerd.kubernetes.admission import queue_check
from schedulerd.kubernetes.admission.impact import Impact, ImpactUnknown
from schedulerd.kubernetes.admission.metrics import AdmissionMetrics
from schedulerd.kubernetes.admission.queue_check import QueueCheck
from schedulerd.kubernetes.admission.rules.queues import (
    BREAK_GLASS_LABEL,
    FILES_MAX,
    QUEUE_FILES_LABEL,
    QueueFileResult,
    QueueRules,
)
from schedulerd.kubernetes.admission.rules.review import (
    ALLOWED,
    WARNING_CHARACTERS_MAX,
    WARNINGS_MAX,
    Decision,
    UserInfo,
    bounded_warnings,
)
from schedulerd.kubernetes.api import ApiError
from tests.kubernetes.admission.reviews import JSON, request

VALID = (
    "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n"
    "        queues:\n          - name: a\n"
)
INVALID = VALID.replace("name: a", "name: a b")
MAPS = ("", "configmaps")
REFUSED = "you have to be allowed the verb 'break-glass' for queueconfigurations.schedulerd.io"
NOTHING_CHANGES = ("impact: nothing changes for queues and running work",)


def config_map(data: JSON | None = None, name: str = "schedulerd", labels: JSON | None = None, **more: JSON) -> JSON:
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "data": {"queues.yaml": VALID} if data is None else data,
        **more,
    }


async def no_impact(text: str) -> Impact:
    return Impact("", ())


async def nobody(user: UserInfo, namespace: str, name: str) -> bool:
    return False


READER = QueueFileReader()
"""One for all tests: it starts a process."""


@pytest.fixture(scope="module", autouse=True)
def reader() -> Iterator[None]:
    yield
    READER.close()


class Check:
    def __init__(
        self,
        ask: Callable[[str], Awaitable[Impact]] = no_impact,
        may: Callable[[UserInfo, str, str], Awaitable[bool]] = nobody,
        policy_group: str = "",
    ) -> None:
        self.read: list[str] = []
        self.metrics = AdmissionMetrics()
        rules = QueueRules("scheduling", "schedulerd", policy_group)
        self._check = QueueCheck(rules, self._read, ask, may, self.metrics)

    async def _read(self, text: str, key: str) -> QueueFileResult:
        self.read.append(key)
        return await READER(text, key)

    async def __call__(
        self, new: JSON, old: JSON | None = None, namespace: str = "scheduling", resource: tuple[str, str] = MAPS
    ) -> Decision:
        return await self._check.decide(request(new, old, namespace=namespace, resource=resource))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer than a webhook may: it starts a process for each reader."""
    monkeypatch.setattr(queue_check, "VALIDATION_SECONDS", 60.0)


async def test_a_valid_file_is_stored_and_its_impact_told(real_loop: None) -> None:
    async def ask(text: str) -> Impact:
        assert text == VALID
        return Impact("", ("queue root.b is removed", "2 pods keep running above the quota"))

    assert await Check()(config_map()) == Decision(warnings=NOTHING_CHANGES)
    told = await Check(ask)(config_map())
    assert told.warnings == ("impact: queue root.b is removed", "impact: 2 pods keep running above the quota")


async def test_an_invalid_file_is_refused_with_line_and_value(real_loop: None) -> None:
    decision = await Check()(config_map({"queues.yaml": INVALID}))
    assert decision.refusal.startswith(
        "the queue file is not valid (1 problem)\nqueues.yaml: line 7: partitions[0].queues[0].queues[0].name = 'a b'"
    )


async def test_only_so_many_problems_are_listed(real_loop: None) -> None:
    many = "".join(f"          - name: a {number}\n" for number in range(50))
    decision = await Check()(config_map({"queues.yaml": VALID + many}))
    lines = decision.refusal.splitlines()
    assert (len(lines), lines[-1]) == (12, "and 40 more")


async def test_the_daemon_may_refuse_what_is_valid_in_itself(real_loop: None) -> None:
    async def ask(text: str) -> Impact:
        return Impact("partition default belongs to another resource manager", ())

    assert (await Check(ask)(config_map())).refusal == (
        "the daemon would not take queues.yaml: partition default belongs to another resource manager"
    )


async def test_an_impact_that_nobody_tells_is_no_reason_to_refuse(real_loop: None) -> None:
    async def ask(text: str) -> Impact:
        raise ImpactUnknown("the daemon is away")

    check = Check(ask)
    assert await check(config_map()) == Decision(warnings=("impact unknown: the daemon is away",))
    assert check.metrics.registry.get_sample_value("schedulerd_admission_impact_unknown_total") == 1


async def test_warnings_of_the_file_are_told(real_loop: None) -> None:
    decision = await Check()(config_map({"queues.yaml": f"checksum: {'0' * 64}\n{VALID}"}))
    assert decision.is_allowed
    assert any("not the checksum of this text" in warning for warning in decision.warnings)


async def test_all_queue_files_are_read_and_nothing_else(real_loop: None) -> None:
    binary = {"other.yaml": base64.b64encode(VALID.encode()).decode(), "x.yaml.gz": "AAAA"}
    check = Check(policy_group="other")
    decision = await check(config_map({"queues.yaml": VALID, "log.level": "DEBUG"}, binaryData=binary))
    assert check.read == ["queues.yaml", "other.yaml"]
    assert decision.warnings == (
        *NOTHING_CHANGES,
        "x.yaml.gz is not read: queue files must not be compressed",
    )
    for content in ("!", base64.b64encode(b"\xff").decode()):
        refused = await Check()(config_map(binaryData={"other.yaml": content}))
        assert "other.yaml: is not UTF-8 text" in refused.refusal


async def test_a_file_that_is_missing_is_told(real_loop: None) -> None:
    decision = await Check()(config_map({"other.yaml": VALID}))
    assert decision.warnings == (
        "there is no queues.yaml, the queue file of this cluster: the last one stays in effect",
    )
    assert (await Check()(config_map({}))).is_allowed


async def test_other_objects_are_none_of_its_business(real_loop: None) -> None:
    broken = config_map({"queues.yaml": INVALID})
    assert await Check()({**broken, "metadata": {"name": "other"}}) == ALLOWED
    assert await Check()(broken, namespace="other") == ALLOWED
    assert await Check()(broken, resource=("", "secrets")) == ALLOWED
    assert await Check()({**broken, "metadata": {"name": "schedulerd", "annotations": {"a": "b"}}}, broken) == ALLOWED
    assert not (await Check()(config_map({"queues.yaml": INVALID + "\n"}), broken)).is_allowed


async def test_too_many_files(real_loop: None) -> None:
    files = {f"q{number}.yaml": VALID for number in range(FILES_MAX + 1)}
    assert "at most 20 are allowed" in (await Check()(config_map(files))).refusal


async def test_a_text_that_takes_too_long_is_stored_unread(real_loop: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that reads it is killed, and the next text is read by another one."""
    monkeypatch.setattr(queue_check, "VALIDATION_SECONDS", 1.5)
    check = Check()
    costly = "a: [" + "x, " * 99_000 + "x]\n"
    decision = await check._check.decide(
        request(config_map({"queues.yaml": costly}), namespace="scheduling", resource=MAPS)
    )
    assert decision.is_allowed
    assert "not validated" in decision.warnings[0]
    monkeypatch.setattr(queue_check, "VALIDATION_SECONDS", 20.0)
    assert not (await check(config_map({"queues.yaml": INVALID}))).is_allowed


async def test_the_glass_is_broken_by_those_who_may(real_loop: None) -> None:
    asked: list[tuple[str, str, str]] = []

    async def may(user: UserInfo, namespace: str, name: str) -> bool:
        asked.append((user.username, namespace, name))
        return user.username == "olga"

    async def unknown(user: UserInfo, namespace: str, name: str) -> bool:
        raise ApiError("no answer")

    broken = config_map({"queues.yaml": INVALID}, labels={BREAK_GLASS_LABEL: "true"})
    refused = await Check(may=may)(broken)
    assert asked == [("ann", "scheduling", "schedulerd")]
    assert REFUSED in refused.refusal
    assert "cannot be found out: no answer" in (await Check(may=unknown)(broken)).refusal
    check = Check(may=may)
    allowed = await check._check.decide(request(broken, namespace="scheduling", resource=MAPS, user="olga"))
    assert allowed == Decision(warnings=(f"label {BREAK_GLASS_LABEL}: the queue files are not validated",))
    other = config_map({"queues.yaml": INVALID}, labels={BREAK_GLASS_LABEL: "false"})
    assert "is not valid" in (await Check(may=may)(other)).refusal


async def test_the_glass_cannot_be_walked_around(real_loop: None) -> None:
    """Labels decide whether the API server asks: to change them first, and the data then, takes the same right."""

    async def olga(user: UserInfo, namespace: str, name: str) -> bool:
        return user.username == "olga"

    watched = config_map(labels={QUEUE_FILES_LABEL: "true", "a": "b"})
    for labels in ({}, {QUEUE_FILES_LABEL: "false"}, {QUEUE_FILES_LABEL: "true", BREAK_GLASS_LABEL: "true"}):
        for data in ({"queues.yaml": VALID}, {"queues.yaml": INVALID}):
            changed = config_map(data, labels=labels)
            assert REFUSED in (await Check(may=olga)(changed, watched)).refusal
            check = Check(may=olga)
            asked = request(changed, watched, namespace="scheduling", resource=MAPS, user="olga")
            assert (await check._check.decide(asked)).is_allowed
    assert await Check(may=olga)(config_map(labels={QUEUE_FILES_LABEL: "true"}), watched) == ALLOWED
    assert await Check(may=olga)(watched, config_map()) == ALLOWED


def test_warnings_are_what_the_api_server_passes_on() -> None:
    told = bounded_warnings(["a\nb\tc\x00d", "x" * 5_000, *map(str, range(100))])
    assert told[0] == "a b c d"
    assert len(told[1]) == WARNING_CHARACTERS_MAX
    assert len(told) == WARNINGS_MAX
    assert told[-1] == "88 more warnings are not shown"
    assert sum(map(len, bounded_warnings(["x" * 5_000] * 100))) <= 4_096


async def test_reading_is_bounded_by_the_loop_too(real_loop: None) -> None:
    reader = QueueFileReader()
    results = await asyncio.gather(*(reader(VALID, "queues.yaml") for _ in range(7)))
    reader.close()
    assert all(not one.problems for one in results)
    busy = [one for one in results if one.warnings]
    assert all("not validated" in one.warnings[0] for one in busy)
    assert 1 <= len(busy) <= 2
