"""One seed of a world whose resource managers have a say: every step judged, and then a calm end.

With an odd seed the callback streams are lost in the end, whatever was asked there; with an even one all is answered.
Either way everybody who waits has to come to an end, and nothing may be left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from schedulerd.core import view
from schedulerd.core.commands import Command, DisconnectCallbacks, GiveVerdicts, Verdict
from schedulerd.core.invariants import violations
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.views import AskView, NodeView, PartitionView
from tests.sim.auditor import Auditor
from tests.sim.calm import calm, leftovers, settling
from tests.sim.constraint_law import ConstraintLaw
from tests.sim.judging_world import _Judging
from tests.sim.oracle import misplaced, overlooked
from tests.sim.refusals import Refusals
from tests.sim.simulation import commands, new_scheduler

STEPS = 400


class Play:
    """One seed, from the first step to the last. Which world it is about is what it leaves when divided by their
    number."""

    def __init__(self, worlds: Sequence[type[_Judging]], seed: int) -> None:
        self.seed = seed
        self.world = worlds[seed % len(worlds)](seed)
        self.seen: Counter[str] = Counter()
        self.scheduler: Scheduler = new_scheduler()
        self._auditor = Auditor()
        self._constraint_law = ConstraintLaw(self.scheduler, self.seen)
        self._refusals = Refusals()
        self._now_ns = 0

    def problems(self) -> list[str]:
        """What is wrong after the first step after which anything is."""
        for now_ns, command in commands(self.world, self.scheduler, STEPS):
            found = self._step(now_ns, command)
            if found:
                return found
        return self._ends_well()

    def _step(self, now_ns: int, command: Command) -> list[str]:
        self._now_ns = now_ns
        were_down = {ask for one in self.scheduler.cluster.partitions() for _, ask in one.turned_down}
        facts = self.scheduler.step(now_ns, command)
        found = violations(self.scheduler)
        state = view.resource_managers(self.scheduler)
        self._auditor.take(facts)
        found += self._auditor.problems(state)
        found += misplaced(state, facts)
        found += self._constraint_law.after(facts, state)
        self._refusals.hear(command, facts)
        if not self.scheduler.wants_cycle():
            found += overlooked(state, self._may_have)
        for memory in self.world.memories.values():
            found += memory.hear(command, facts)
        for calls in self.world.calls.values():
            found += calls.hear(now_ns, command, facts, self.seen)
            rm = self.scheduler.cluster.resource_managers.get(calls.rm_id)
            if set(calls.open) != set(rm.callbacks.open_trials if rm is not None else ()):
                found.append(f"{calls.rm_id} does not know what it is asked")
        are_down = {ask for one in self.scheduler.cluster.partitions() for _, ask in one.turned_down}
        self.seen["turned down"] += bool(are_down - were_down)
        self.seen["called back"] += any(ask.pending for ask in were_down - are_down)
        return [f"seed {self.seed} at {now_ns} after {command}:", *found] if found else []

    def _may_have(self, partition: PartitionView, ask: AskView, node: NodeView) -> bool:
        """Whether it is not being tried, and neither its constraint nor a refusal is against the node."""
        is_refused = self._refusals.bar(partition, ask, node)
        return not ask.trials and not is_refused and self._constraint_law.allows(partition, ask, node)

    def _answers(self) -> list[str]:
        """Says yes to everything."""
        for calls in self.world.calls.values():
            if calls.open:
                agreed = [Verdict(call_id, "", getattr(one, "start_index", 0)) for call_id, one in calls.open.items()]
                found = self._step(self._now_ns, GiveVerdicts(calls.rm_id, agreed))
                if found:
                    return found
        return []

    def _ends_well(self) -> list[str]:
        if self.seed % 2:
            for rm_id in self.world.memories:
                found = self._step(self._now_ns, DisconnectCallbacks(rm_id))
                if found:
                    return found
        for phase in (settling, calm):
            for now_ns, command in phase(self.scheduler, self.world.memories, self._now_ns):
                found = self._step(now_ns, command) or self._answers()
                if found:
                    return ["in calm,", *found]
        return [f"seed {self.seed}: {text}" for text in leftovers(self.scheduler)]
