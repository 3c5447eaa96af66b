"""What goes wrong between resource managers and the scheduler, and with either, on top of what a world makes up.

Messages of one stream keep their order and may be late or come twice; those of different streams overtake each other.
Streams break and take along what was under way, readers are slow, resource managers crash and report anew, nodes flap,
quotas are cut below what is used, and time jumps. Every fault is counted by its kind when it happens.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from random import Random

from schedulerd.core.language.commands import (
    AbsenceCause,
    AllocationRelease,
    Command,
    ConnectResourceManager,
    DisconnectResourceManager,
    GivePredicateResults,
    NodeAction,
    NodeUpdate,
    RegisterResourceManager,
    RunCycle,
    StopCause,
    StopResourceManager,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import MILLISECOND_NS, MINUTE_NS, SECOND_NS, PartitionSpec, QueueSpec
from tests.sim.clusters import TIMEOUTS
from tests.sim.notes import FORGOTTEN_SHARE, Notes
from tests.sim.rm_memory import ResourceManagerMemory
from tests.sim.world import Move, Sleep, World

DUPLICATE = "duplicate message"
DELAYED = "delayed message"
REORDERED = "message that overtook another stream's"
DROPPED = "stream dropped with what was under way"
SLOW_READER = "slow reader"
OVERFLOW = "slow reader that is given up"
FULL, PARTIAL, STALE = "crash and a full report", "crash and a partial report", "crash and a stale report"
FLAP_IN_SWAP, FLAP_IN_PREEMPTION = "node flap mid-swap", "node flap mid-preemption"
QUOTA_CUT = "quota cut below usage"
AT_ALARM = "release at the instant of an alarm"
JUMP = "clock jump of hours"

KINDS = (
    *(DUPLICATE, DELAYED, REORDERED, DROPPED, SLOW_READER, OVERFLOW, FULL, PARTIAL, STALE),
    *(FLAP_IN_SWAP, FLAP_IN_PREEMPTION, QUOTA_CUT, AT_ALARM, JUMP),
)
HOUR_NS = 60 * MINUTE_NS

FAULT_SHARE = 0.05
"""How many of the moves are faults."""
FLAP_SHARE = 0.1
"""How often a node flaps while something is asked to go."""
DELAYED_SHARE = 0.03
"""How many of the messages are late, though nothing is late before them."""
DUPLICATE_SHARE = 0.02
LATE_MOVES_MAX = 12
"""How many other moves come before what is late, at most."""
NOTES_SHARE = 0.02
"""How often a resource manager writes down what it has."""

Stream = tuple[str, type[Command]]
_STREAMS = (UpdateNodes, UpdateApplications, UpdateAllocations, GivePredicateResults)


class Faults:
    """A world in which things go wrong. Same seed, same faults."""

    def __init__(self, world: World, seed: int, injected: Counter[str]) -> None:
        """Counts in `injected` what goes wrong."""
        self._world = world
        self._random = Random(f"faults {seed}")
        self._injected = injected
        self._notes = {rm_id: Notes(memory) for rm_id, memory in world.memories.items()}
        self._specs: dict[str, tuple[PartitionSpec, ...]] = {}
        """What each queue file said last."""
        self._script: deque[Move] = deque()
        """The rest of a fault; goes first, and nothing goes wrong with it."""
        self._late: dict[Stream, deque[Command]] = {}
        """Under way, in order; no empty ones."""
        self._due_in: dict[Stream, int] = {}
        """After so many moves they arrive."""

    def next_move(self) -> Move:
        if self._script:
            return self._heard(self._script.popleft())
        for stream in [stream for stream, moves in self._due_in.items() if moves <= 0]:
            return self._heard(self._arrival(stream))
        for stream in self._due_in:
            self._due_in[stream] -= 1
        self._script.extend(self._fault())
        return self._heard(self._script.popleft()) if self._script else self._sent(self._world.next_move())

    def last_moves(self) -> list[Move]:
        """What is still under way arrives."""
        late = [command for commands in self._late.values() for command in commands]
        return [*self._script, *late, *self._world.last_moves()]

    # Messages

    def _sent(self, move: Move) -> Move:
        """What comes of a message; another move goes on, if it is late."""
        if not isinstance(move, _STREAMS):
            return self._heard(move)
        stream = move.rm_id, type(move)
        if stream in self._late:
            self._late[stream].append(move)
            return RunCycle(50)
        if self._random.random() < DELAYED_SHARE:
            self._injected[DELAYED] += 1
            self._hold(stream, move)
            return RunCycle(50)
        self._injected[REORDERED] += any(rm_id == move.rm_id for rm_id, _ in self._late)
        if self._random.random() < DUPLICATE_SHARE:
            self._injected[DUPLICATE] += 1
            if self._random.random() < 0.5:
                self._script.append(move)
            else:
                self._hold(stream, move)
        return self._heard(move)

    def _hold(self, stream: Stream, move: Command) -> None:
        self._late[stream] = deque((move,))
        self._due_in[stream] = self._random.randint(1, LATE_MOVES_MAX)

    def _arrival(self, stream: Stream) -> Command:
        command = self._late[stream].popleft()
        if not self._late[stream]:
            del self._late[stream], self._due_in[stream]
        return command

    def _heard(self, move: Move) -> Move:
        if isinstance(move, RegisterResourceManager | UpdateConfiguration):
            self._specs[move.rm_id] = move.partitions
        if isinstance(move, _STREAMS):
            self._notes[move.rm_id].hear(move)
        if self._random.random() < NOTES_SHARE:
            self._notes[self._random.choice(tuple(self._notes))].write()
        return move

    def _lose(self, rm: ResourceManagerMemory) -> None:
        """What it sent and what has not arrived never will."""
        for stream in [stream for stream in self._late if stream[0] == rm.rm_id]:
            del self._late[stream], self._due_in[stream]

    # Faults

    def _fault(self) -> list[Move]:
        """Mostly none."""
        rm = self._world.memories[self._random.choice(tuple(self._world.memories))]
        if rm.to_confirm and self._random.random() < FLAP_SHARE:
            return self._flap(rm)
        if self._random.random() < FAULT_SHARE:
            return self._random.choice(self._menu())(rm)
        return []

    def _menu(self) -> tuple[Callable[[ResourceManagerMemory], list[Move]], ...]:
        return (
            self._drop_streams,
            self._read_slowly,
            self._crash,
            self._cut_quota,
            self._release_at_alarm,
            self._jump,
        )

    def _drop_streams(self, rm: ResourceManagerMemory) -> list[Move]:
        """It is back soon, and goes on where it was, but for what was lost."""
        if rm.state is not ResourceManagerState.RUNNING:
            return []
        self._injected[DROPPED] += 1
        self._lose(rm)
        away = Sleep(self._random.randrange(TIMEOUTS.reconnect_ns // 2))
        return [DisconnectResourceManager(rm.rm_id, AbsenceCause.GONE), away, ConnectResourceManager(rm.rm_id)]

    def _read_slowly(self, rm: ResourceManagerMemory) -> list[Move]:
        """Nothing is placed for it until it has caught up; now and then it does not."""
        if rm.state is not ResourceManagerState.RUNNING:
            return []
        slow = DisconnectResourceManager(rm.rm_id, AbsenceCause.READS_SLOWLY)
        behind = Sleep(self._random.randrange(30 * SECOND_NS))
        if self._random.random() < 0.2:
            self._injected[OVERFLOW] += 1
            self._lose(rm)
            again = self._notes[rm.rm_id].report(self._random, self._notes[rm.rm_id].page())
            return [slow, behind, StopResourceManager(rm.rm_id, StopCause.OUTBOX_OVERFLOW), *again]
        self._injected[SLOW_READER] += 1
        return [slow, RunCycle(50), behind, ConnectResourceManager(rm.rm_id)]

    def _crash(self, rm: ResourceManagerMemory) -> list[Move]:
        """It comes back and reports what it has, some of that, or what it had a while ago."""
        if rm.state in (None, ResourceManagerState.STOPPED):
            return []
        notes = self._notes[rm.rm_id]
        page, kind, forgets = notes.page(), self._random.choice((FULL, PARTIAL, STALE)), 0.0
        if kind == STALE:
            if not notes.pages:
                return []
            page = notes.pages[0]
        elif kind == PARTIAL:
            forgets = FORGOTTEN_SHARE
        self._injected[kind] += 1
        self._lose(rm)
        return list(notes.report(self._random, page, forgets=forgets))

    def _flap(self, rm: ResourceManagerMemory) -> list[Move]:
        """A node where somebody is asked to go is not ready for a moment, or gone, with all that runs there."""
        of_swap, of_preemption = TerminationType.PLACEHOLDER_REPLACED, TerminationType.PREEMPTED_BY_SCHEDULER
        going = [one for one in rm.to_confirm.values() if one.termination in (of_swap, of_preemption)]
        if not going or rm.state is not ResourceManagerState.RUNNING:
            return []
        one = self._random.choice(going)
        notes, place = self._notes[rm.rm_id], (one.partition, one.node_id)
        node = notes.node(place, notes.page())
        if node is None:
            return []
        self._injected[FLAP_IN_SWAP if one.termination is of_swap else FLAP_IN_PREEMPTION] += 1
        moment = Sleep(self._random.randrange(2 * SECOND_NS))
        if self._random.random() < 0.5:
            gone = NodeUpdate(one.node_id, NodeAction.DECOMISSION, one.partition)
            back = replace(node, partition=one.partition, existing=[] if self._random.random() < 0.5 else node.existing)
        else:
            gone, back = (
                NodeUpdate(
                    one.node_id, NodeAction.UPDATE, one.partition, attributes={**node.attributes, "ready": ready}
                )
                for ready in ("false", "true")
            )
        return [UpdateNodes(rm.rm_id, [gone]), moment, UpdateNodes(rm.rm_id, [back])]

    def _cut_quota(self, rm: ResourceManagerMemory) -> list[Move]:
        """A queue may use half of what it uses."""
        specs = self._specs.get(rm.rm_id, ())
        if not rm.held or not specs or rm.state in (None, ResourceManagerState.STOPPED):
            return []
        one = self._random.choice(list(rm.held.values()))
        names = one.queue.split(".")
        path = names[1 : self._random.randint(1, len(names))]
        top = ".".join(names[: len(path) + 1])
        used = Resources()
        for other in rm.held.values():
            if other.partition == one.partition and f"{other.queue}.".startswith(f"{top}."):
                used.add(other.resources.items())
        most = Limits({name: amount // 2 for name, amount in used.items()})
        cut = tuple(
            replace(spec, root=_with_max(spec.root, path, most)) if spec.name == one.partition else spec
            for spec in specs
        )
        if cut == specs or not path:
            return []
        self._injected[QUOTA_CUT] += 1
        return [UpdateConfiguration(rm.rm_id, cut)]

    def _release_at_alarm(self, rm: ResourceManagerMemory) -> list[Move]:
        """What has just ended is said at the very instant of an alarm, before it rings or right after."""
        if not rm.held:
            return []
        asked = list(rm.to_confirm.values())
        if asked and self._random.random() < 0.6:
            one = self._random.choice(asked)
            release = AllocationRelease(one.application_id, one.partition, one.uuid, termination=one.termination)
        else:
            held = self._random.choice(list(rm.held.values()))
            release = AllocationRelease(held.application_id, held.partition, held.uuid)
        self._injected[AT_ALARM] += 1
        rings = self._random.random() < 0.5
        return [Sleep(0, rings=rings, to_deadline=True), UpdateAllocations(rm.rm_id, releases=[release])]

    def _jump(self, rm: ResourceManagerMemory) -> list[Move]:
        """The machine was asleep: the next message comes hours later, before all alarms that were due meanwhile."""
        self._injected[JUMP] += 1
        return [Sleep(self._random.randrange(HOUR_NS, 5 * HOUR_NS), rings=False), RunCycle(50), Sleep(MILLISECOND_NS)]


def _with_max(spec: QueueSpec, path: list[str], most: Limits) -> QueueSpec:
    """The queue with another max at the end of the path; as it is where the file does not name that."""
    if not path:
        return replace(spec, max=most)
    children = tuple(_with_max(one, path[1:], most) if one.name == path[0] else one for one in spec.children)
    return replace(spec, children=children)
