"""Work in steps: how much is done in one turn of the loop, counted by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator

import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import PredicatesCall
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.events import Event, Gone, Put, Started
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.predicates import demands
from schedulerd.kubernetes.shim.daemon_link import DaemonLink
from schedulerd.kubernetes.shim.pace import WORK_MAX, Pace
from schedulerd.kubernetes.shim.watches import in_parts
from tests.kubernetes import builders as b
from tests.kubernetes.cluster.play import own


class Work:
    """Questions of so many steps each, and what each turn of the loop has done."""

    def __init__(self) -> None:
        self.spent = 0
        self.pace = Pace(lambda: self.spent, asyncio.get_running_loop().call_soon)

    def question(self, name: str, steps: int, cost: int) -> Generator[None, None, str]:
        for _ in range(steps):
            self.spent += cost
            yield
        return name

    def ask(self, name: str, steps: int = 1, cost: int = 1) -> str | Awaitable[str]:
        return self.pace.run(self.question(name, steps, cost))


async def test_what_costs_little_is_answered_at_once() -> None:
    work = Work()
    assert [work.ask(str(number)) for number in range(100)] == [str(number) for number in range(100)]
    assert len(work.pace) == 0


async def test_no_turn_of_the_loop_does_more_than_its_share() -> None:
    work = Work()
    cost = WORK_MAX // 5
    answers = [asyncio.ensure_future(_of(work.ask(str(number), 10, cost))) for number in range(20)]
    assert work.spent == WORK_MAX, "the rest is left to other turns"
    turns = 0
    while len(work.pace):
        before = work.spent
        await asyncio.sleep(0)
        assert work.spent - before <= WORK_MAX
        turns += 1
    assert await asyncio.gather(*answers) == [str(number) for number in range(20)]
    assert turns >= 39


async def test_a_cheap_question_passes_one_that_costs_much() -> None:
    work = Work()
    order: list[str] = []
    big = asyncio.ensure_future(_note(work.ask("big", 50, WORK_MAX), order))
    small = asyncio.ensure_future(_note(work.ask("small"), order))
    await asyncio.gather(big, small)
    assert order == ["small", "big"]


async def test_an_error_is_raised_where_the_answer_is_awaited() -> None:
    work = Work()

    def fails(cost: int) -> Generator[None, None, str]:
        work.spent += cost
        yield
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await _of(work.pace.run(fails(1)))
    with pytest.raises(ValueError, match="no"):
        await _of(work.pace.run(fails(WORK_MAX)))


async def test_a_question_that_nobody_waits_for_is_given_up() -> None:
    work = Work()
    big = work.ask("big", 1_000, WORK_MAX)
    assert isinstance(big, asyncio.Future)
    big.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(work.pace) == 0
    assert work.spent < 3 * WORK_MAX


async def _of(answer: str | Awaitable[str]) -> str:
    return answer if isinstance(answer, str) else await answer


async def _note(answer: str | Awaitable[str], order: list[str]) -> None:
    order.append(await _of(answer))


HOST = "kubernetes.io/hostname"
NODES = [f"n{number}" for number in range(5)]
GROUPS = 100
"""Pods with labels of their own, each of which has to be compared with every term."""


def hostile(number: int) -> Pod:
    """As many terms as a pod may have, all about other pods than those of the next one."""
    terms = [b.term(HOST, b.selector(**{f"k{number}-{one}": "v"}), namespaces=["other"]) for one in range(100)]
    return own(f"evil{number}", affinity=b.anti_affinity(*terms))


async def test_forty_pods_with_many_terms_never_hold_the_loop() -> None:
    """Their neighbour is answered after a few turns, and at once when they are gone."""
    cluster, loop = Cluster(), asyncio.get_running_loop()
    link = DaemonLink(
        cluster, lambda events: None, lambda release: None, pace=Pace(lambda: cluster.work, loop.call_soon)
    )
    evil = [hostile(number) for number in range(40)]
    victim = own("victim", topologySpreadConstraints=[b.spread(HOST, b.selector(app="x"))])
    others = [b.bound(f"o{number}", "n0", "other", {"app": f"a{number}"}) for number in range(GROUPS)]
    nodes = [b.node(name, {HOST: name}) for name in NODES]
    cluster.step(0, [Put(one) for one in (*nodes, *others, *evil, victim)])
    cluster.step(0, [Started(0)])
    asked = [_ask(link, pod, node) for node in NODES for pod in evil]
    assert not any(one.done() for one in asked[1:]), "the first pod has used up what one turn may cost"
    neighbour = _ask(link, victim, "n1")
    dearest, before_neighbour = 0, 0
    while not all(one.done() for one in asked):
        before = cluster.work
        await asyncio.sleep(0)
        dearest = max(dearest, cluster.work - before)
        before_neighbour = before_neighbour if neighbour.done() else cluster.work
    assert dearest <= WORK_MAX + GROUPS
    assert await neighbour is None
    assert before_neighbour < cluster.work / 5, "it has not waited for all that others had asked before"
    cluster.step(0, [Gone(one) for one in evil])
    assert _ask(link, victim, "n2").done()


def _ask(link: DaemonLink, pod: Pod, node: str) -> asyncio.Future[str | None]:
    args = si_pb2.PredicatesArgs(allocationKey=pod.metadata.uid, nodeID=node, allocate=True)
    answer = link.predicates(PredicatesCall(args=args))
    if isinstance(answer, asyncio.Future):
        return answer
    done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
    assert answer is None or isinstance(answer, str)
    done.set_result(answer)
    return done


def test_a_batch_of_events_is_cut_by_what_they_cost() -> None:
    plain: list[Event] = [Put(own(f"p{number}")) for number in range(30)]
    big: list[Event] = [Put(hostile(number)) for number in range(4)]
    cost = demands.work(hostile(0).spec)
    assert list(in_parts(plain, 30)) == [plain]
    assert list(in_parts(plain, 20)) == [plain[:20], plain[20:]]
    assert list(in_parts(big, 2 * cost)) == [big[:2], big[2:]]
    assert list(in_parts(big, 1)) == [[one] for one in big]
    assert list(in_parts([], 1)) == []
