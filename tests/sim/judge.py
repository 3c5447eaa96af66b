"""Everything that has to hold after every step: what is judged in all worlds, and what in one kind of them only.

Who is passed over for whom is judged where neither a resource manager has a say nor asks are choosy, as the judges of
gangs and of kept room know rooms and queues and nothing of attributes and results; elsewhere placement constraints are
judged, and what resource managers are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import Command, GivePredicateResults, PredicateResult, RingAlarms
from schedulerd.core.language.facts.fact import Allocated, Fact, ResourceManagerChanged
from schedulerd.core.language.facts.gangs import GangStateChanged
from schedulerd.core.language.lifecycles import GangState, GangTrigger, ResourceManagerState
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.actions.gang_time import REQUEUE_STYLE
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.gang import UNBEGUN
from schedulerd.core.views import view
from schedulerd.core.views.values import ApplicationView, AskView, NodeView, PartitionView, ResourceManagerView
from tests.sim.ask_invariants import AskInvariants
from tests.sim.auditor import Auditor
from tests.sim.autoscaler import Autoscaler
from tests.sim.constraint_invariants import ConstraintInvariants
from tests.sim.file_invariants import FileInvariants
from tests.sim.gang_invariants import GangInvariants
from tests.sim.growth import growing, unserved
from tests.sim.judging_world import Calls
from tests.sim.observations import Observations
from tests.sim.oracle import PLACEABLE_STATES, misplaced, overlooked
from tests.sim.refusals import Refusals
from tests.sim.rm_memory import ResourceManagerMemory
from tests.sim.room_invariants import RoomInvariants
from tests.sim.start_invariants import StartInvariants
from tests.sim.stop_invariants import StopInvariants
from tests.sim.watch import PartitionName, Watch


class Judge:
    """Judges the steps of one history in their order, where nobody has a say and asks are not choosy."""

    def __init__(
        self,
        scheduler: Scheduler,
        memories: Mapping[str, ResourceManagerMemory],
        seen: Observations,
        look_at_all_every: int = 1,
    ) -> None:
        """Counts in `seen` what it comes across. `look_at_all_every` is that of the `Watch`."""
        self.memories = memories
        self._scheduler = scheduler
        self._watch = Watch(scheduler, look_at_all_every)
        self._unsettled: set[PartitionName] = set()
        """What may have changed since it was judged that nobody is overlooked there."""
        self._seen = seen
        self._auditor = Auditor()
        self._ask_invariants = AskInvariants()
        self._file_invariants = FileInvariants()
        self._start_invariants = StartInvariants()
        self._stop_invariants = StopInvariants()
        self._start()

    def _start(self) -> None:
        self._gang_invariants = GangInvariants()
        self._room_invariants = RoomInvariants(self._scheduler, self._seen)

    def after(self, now_ns: int, command: Command, facts: Sequence[Fact]) -> list[str]:
        """What is wrong after this step, as sentences."""
        self._note_dropped(facts)
        self._watch.look(command, facts)
        changed, state = self._watch.changed, self._watch.state
        problems = violations(self._scheduler, changed.values())
        deadline_ns = self._scheduler.next_deadline_ns()
        if isinstance(command, RingAlarms) and deadline_ns is not None and deadline_ns <= now_ns:
            problems.append(f"an alarm that was due at {deadline_ns} has not rung at {now_ns}")
        fresh = self._watch.only(changed)
        self._auditor.take(facts)
        told = self._told(facts)
        problems += self._auditor.problems(fresh)
        shown, moved = {rm.rm_id: rm for rm in state}, {rm_id for rm_id, _ in changed}
        for memory in self.memories.values():
            problems += memory.hear(command, told)
            if memory.rm_id in moved or memory.rm_id not in shown:
                problems += memory.disagreements(shown.get(memory.rm_id))
        problems += self._file_invariants.after(command, facts, state)
        problems += self._ask_invariants.after(command, facts, state)
        problems += self._start_invariants.after(command, facts, state)
        problems += self._stop_invariants.after(command, facts, state)
        problems += misplaced(state, facts)
        problems += self._laws(now_ns, command, facts, fresh)
        self._seen.observe(command, facts, state)
        return problems

    def _told(self, facts: Sequence[Fact]) -> Sequence[Fact]:
        """What resource managers hear of them on their update streams."""
        return facts

    def _laws(
        self, now_ns: int, command: Command, facts: Sequence[Fact], fresh: Sequence[ResourceManagerView]
    ) -> list[str]:
        """`fresh` is the state after the step, without the partitions that are as they were."""
        problems = self._gang_invariants.after(now_ns, command, facts, fresh)
        problems += self._room_invariants.after(now_ns, command, facts, self._watch.state)
        problems += overlooked(self._settled())
        return problems

    def _settled(self) -> list[ResourceManagerView]:
        """Where nobody may be overlooked: nowhere while a cycle is wanted, and else where that may have changed."""
        self._unsettled.update(self._watch.changed)
        if self._scheduler.wants_cycle():
            return []
        settled, self._unsettled = self._unsettled, set()
        return self._watch.only(settled)

    def denied(self) -> list[str]:
        """Who has a right to room, and would get it if others ended, when everything has settled."""
        return self._room_invariants.denied(view.resource_managers(self._scheduler.cluster))

    def growing(self, now_ns: int) -> Iterator[tuple[int, Command]]:
        """Commands with their time, in which the cluster grows for what lacks room, if somebody lets it."""
        return iter(())

    def unserved(self) -> list[str]:
        """Who lacks room after that all the same."""
        return []

    def answers(self) -> Iterator[Command]:
        """What resource managers say at once to what they are asked, when everything is calm."""
        return iter(())

    def _note_dropped(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, ResourceManagerChanged) and fact.state is ResourceManagerState.INIT:
                dropped = bool(self.memories[fact.rm_id].held)
                self._seen["re-registration that drops allocations"] += dropped


class PredicateJudge(Judge):
    """Where resource managers have a say, or asks are choosy about nodes and company."""

    def __init__(
        self,
        scheduler: Scheduler,
        memories: Mapping[str, ResourceManagerMemory],
        seen: Observations,
        look_at_all_every: int = 1,
        calls: Mapping[str, Calls] | None = None,
    ) -> None:
        """`calls` is what resource managers were asked; None if nobody else needs to know."""
        super().__init__(scheduler, memories, seen, look_at_all_every)
        self._calls = {rm_id: Calls(rm_id) for rm_id in memories} if calls is None else calls

    def _start(self) -> None:
        self._constraint_invariants = ConstraintInvariants(self._scheduler, self._seen)
        self._refusals = Refusals()
        self._down = self._refused_asks()

    def _laws(
        self, now_ns: int, command: Command, facts: Sequence[Fact], fresh: Sequence[ResourceManagerView]
    ) -> list[str]:
        problems = self._constraint_invariants.after(facts, fresh)
        self._refusals.hear(command, facts)
        problems += overlooked(self._settled(), self._may_have)
        for calls in self._calls.values():
            problems += calls.hear(now_ns, command, facts, self._seen)
            rm = self._scheduler.cluster.resource_managers.get(calls.rm_id)
            if set(calls.open) != set(rm.callbacks.open_predicate_checks if rm is not None else ()):
                problems.append(f"{calls.rm_id} does not know what it is asked")
        were_down, self._down = self._down, self._refused_asks()
        self._seen["set aside after refusals"] += bool(self._down - were_down)
        self._seen["called back"] += any(ask.pending for ask in were_down - self._down)
        return problems

    def denied(self) -> list[str]:
        return []

    def answers(self) -> Iterator[Command]:
        """They agree to everything."""
        for calls in self._calls.values():
            if calls.open:
                agreed = [
                    PredicateResult(call_id, "", getattr(one, "start_index", 0)) for call_id, one in calls.open.items()
                ]
                yield GivePredicateResults(calls.rm_id, agreed)

    def _may_have(self, partition: PartitionView, ask: AskView, node: NodeView) -> bool:
        """Whether it is not being tried, and neither its constraint nor a refusal is against the node."""
        is_refused = self._refusals.bar(partition, ask, node)
        return not ask.predicate_checks and not is_refused and self._constraint_invariants.allows(partition, ask, node)

    def _refused_asks(self) -> set[Ask]:
        return {ask for one in self._scheduler.cluster.partitions() for _, ask in one.refused_asks}


class DeclaredJudge(PredicateJudge):
    """Where gangs declare their task groups: no member is placed before its gang is complete."""

    def _start(self) -> None:
        """Nothing is choosy, and nobody is passed over but by rules of gangs."""
        self._lost_members: set[tuple[str, str, str]] = set()
        """Gangs that had all the members that they need, and lack some of them since."""

    def _told(self, facts: Sequence[Fact]) -> Sequence[Fact]:
        """Nothing of slots."""
        told = (one for one in facts if not getattr(one, "slot", False))
        return [replace(one, replaces="") if isinstance(one, Allocated) and one.replaces_slot else one for one in told]

    def _laws(
        self, now_ns: int, command: Command, facts: Sequence[Fact], fresh: Sequence[ResourceManagerView]
    ) -> list[str]:
        placed = {
            (one.rm_id, one.partition, one.application_id)
            for one in facts
            if isinstance(one, Allocated) and one.task_group and not one.recovered and not one.slot
        }
        self._hear_states(facts)
        problems: list[str] = []
        for rm in fresh:
            for partition in rm.partitions:
                for one in partition.applications:
                    self._seen[f"gang {one.gang_state}"] += bool(one.gang_state)
                    problems += self._timeless(now_ns, command, (rm.rm_id, partition.name), one)
                    if one.gang_state in UNBEGUN and (rm.rm_id, partition.name, one.application_id) in placed:
                        problems.append(f"members of {one.application_id} are placed, and it is {one.gang_state}")
        for calls in self._calls.values():
            problems += calls.hear(now_ns, command, facts, self._seen)
        return problems

    def _hear_states(self, facts: Sequence[Fact]) -> None:
        for one in facts:
            if isinstance(one, GangStateChanged):
                name = (one.rm_id, one.partition, one.application_id)
                if one.old_state is GangState.GATHERING and one.cause == GangTrigger.UNFORM.value:
                    self._lost_members.add(name)
                else:
                    self._lost_members.discard(name)

    def _timeless(self, now_ns: int, command: Command, where: tuple[str, str], item: ApplicationView) -> Iterator[str]:
        """A gang that waits for members again has a time that is not over, and one that never had all of them none."""
        if item.gang_state != GangState.FORMING or item.state not in PLACEABLE_STATES:
            return
        has_time = item.gang_deadline_ns is not None
        waits = (*where, item.application_id) in self._lost_members and item.gang_style.lower() != REQUEUE_STYLE
        self._seen["gang that waits for members again"] += waits
        if has_time is not waits:
            yield f"{item.application_id} waits for members with{'' if has_time else 'out'} a time"
        if isinstance(command, RingAlarms) and (item.gang_deadline_ns or now_ns + 1) <= now_ns:
            yield f"the time of {item.application_id} should be over by now"


class AutoscaledJudge(DeclaredJudge):
    """Where an autoscaler acts on what resource managers are told: what it makes room for gets it."""

    def __init__(
        self,
        scheduler: Scheduler,
        memories: Mapping[str, ResourceManagerMemory],
        seen: Observations,
        look_at_all_every: int = 1,
        calls: Mapping[str, Calls] | None = None,
        autoscalers: Mapping[str, Autoscaler] | None = None,
    ) -> None:
        """`autoscalers` hear what resource managers are told; None if nobody else needs to know."""
        super().__init__(scheduler, memories, seen, look_at_all_every, calls)
        self._autoscalers = {rm_id: Autoscaler(rm_id) for rm_id in memories} if autoscalers is None else autoscalers

    def _laws(
        self, now_ns: int, command: Command, facts: Sequence[Fact], fresh: Sequence[ResourceManagerView]
    ) -> list[str]:
        for one in self._autoscalers.values():
            one.hear(facts)
        return super()._laws(now_ns, command, facts, fresh)

    def growing(self, now_ns: int) -> Iterator[tuple[int, Command]]:
        yield from growing(self._scheduler, self.memories, self._autoscalers, self._seen, now_ns)

    def unserved(self) -> list[str]:
        return unserved(self._scheduler, self._autoscalers)
