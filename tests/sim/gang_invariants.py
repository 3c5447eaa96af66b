"""What the gang design promises, judged fact by fact, each at the point of the history at which it was said.

The books say what there was before a fact; so a rule can tell that an ask had no right to what it got, also where the
state after the step looks sound again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedulerd.core.language.commands import Command, NewAsk, TerminationType, UpdateAllocations, UpdateNodes
from schedulerd.core.language.facts.fact import (
    Allocated,
    ApplicationChanged,
    AskAdded,
    AskWithdrawn,
    Fact,
    NodeChanged,
    ReleaseCause,
    Released,
    ReleaseRequested,
    WithdrawCause,
)
from schedulerd.core.language.facts.gangs import GangCompleted, GangGaveWay, GangTimedOut, SwapRefused
from schedulerd.core.language.lifecycles import ApplicationState, NodeState, ResourceManagerState
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from schedulerd.core.views.values import Amounts, NodeView, PartitionView, QueueView, ResourceManagerView
from tests.sim import life_invariants
from tests.sim.gang_books import GangBook, GangBooks, Name, name_of
from tests.sim.oracle import PLACEABLE_STATES
from tests.sim.rm_memory import ANSWERED, plain_name

Asked = tuple[str, str]
"""Application and key; those of different resource managers and partitions count as one."""


class GangInvariants:
    """Judges the steps of one history in their order."""

    def __init__(self) -> None:
        self._books = GangBooks()
        self._asked: dict[Asked, list[NewAsk]] = {}
        """All that was ever asked for with a key."""
        self._refused: set[Asked] = set()
        """Asks that go on without a placeholder, as none is large enough."""
        self._returning: dict[str, Name] = {}
        """Placeholders that give way and are to be asked for again, by UUID."""
        self._outdated: set[str] = set()
        """Placeholders whose ask came again since, and may want less."""

    def after(
        self, now_ns: int, command: Command, facts: Sequence[Fact], state: Sequence[ResourceManagerView]
    ) -> list[str]:
        """What was done against the design in this step, as sentences; `state` is the one after it."""
        self._hear(command)
        self._books.expect(command)
        partitions = {(rm.rm_id, partition.name): partition for rm in state for partition in rm.partitions}
        rm_states = {rm.rm_id: rm.state for rm in state}
        found: list[str] = []
        for at, fact in enumerate(facts):
            name = name_of(fact)
            book = self._books.by_name.get(name)
            partition = partitions.get(name[:2])
            if book is not None and partition is not None:  # None: dropped in this step
                later = facts[at + 1 :]
                texts = [*self._judge(book, fact, later, partition, now_ns)]
                if (
                    isinstance(fact, Released)
                    and fact.placeholder
                    and rm_states[name[0]] == ResourceManagerState.RUNNING
                ):
                    texts += self._room_taken(fact, later, partition)
                if isinstance(fact, Allocated | ApplicationChanged):
                    texts += life_invariants.judged(book, command, fact, later, now_ns)
                found += [f"{name[2]}: {text}" for text in texts]
            self._books.take(fact, now_ns)
        found += self._books.close(now_ns)
        for book in self._books.by_name.values():
            found += [f"{book.spec.application_id}: {text}" for text in life_invariants.overdue(book, command, now_ns)]
        found += self._awaiting_and_taken_back(command)
        return found + list(self._books.differences(state))

    def _hear(self, command: Command) -> None:
        """Whatever is asked for or taken back may be the end of what would have been asked for again."""
        if isinstance(command, UpdateNodes):
            for node in command.nodes:
                for existing in node.existing:
                    self._outdate(command.rm_id, existing.application_id, existing.allocation_key)
        if not isinstance(command, UpdateAllocations):
            return
        for ask in command.asks:
            self._asked.setdefault((ask.application_id, ask.allocation_key), []).append(ask)
            self._outdate(command.rm_id, ask.application_id, ask.allocation_key)
        touched = {ask.application_id for ask in command.asks} | {one.application_id for one in command.ask_releases}
        for uuid, (rm_id, _, application_id) in list(self._returning.items()):
            if rm_id == command.rm_id and ("" in touched or application_id in touched):
                del self._returning[uuid]

    def _outdate(self, rm_id: str, application_id: str, allocation_key: str) -> None:
        """The ask may want less from now on than it has: it came again, or one of it runs on a node already."""
        for (of_rm, _, of_application), book in self._books.by_name.items():
            if (of_rm, of_application) == (rm_id, application_id):
                there = book.placeholders.values()
                self._outdated.update(one.uuid for one in there if one.allocation_key == allocation_key)

    def _awaiting_and_taken_back(self, command: Command) -> Iterator[str]:
        """What the RM takes back while it waits for a placeholder does not come after all."""
        if not isinstance(command, UpdateAllocations):
            return
        for release in command.ask_releases:
            if release.termination not in ANSWERED or not (release.application_id or release.allocation_key):
                continue
            for (rm_id, partition, application_id), book in self._books.by_name.items():
                if (rm_id, partition) != (command.rm_id, plain_name(release.partition)):
                    continue
                if release.application_id in ("", application_id):
                    keys = [key for (key, _), count in book.awaiting.items() if count]
                    keys = [key for key in keys if release.allocation_key in ("", key)]
                    if keys:
                        yield f"{application_id}: asks {keys} await placeholders, and were taken back"

    def _judge(
        self, book: GangBook, fact: Fact, later: Sequence[Fact], partition: PartitionView, now_ns: int
    ) -> Iterator[str]:
        match fact:
            case Allocated(placeholder=True, recovered=False) if book.began_ns is None:
                yield from self._gate(book, fact, partition)
            case Allocated(placeholder=False, recovered=False, replaces=""):
                yield from self._placed_without_swap(book, fact)
            case AskWithdrawn(cause=WithdrawCause.AWAITING_PLACEHOLDER):
                yield from self._swap_begun(book, fact, later)
            case AskWithdrawn(cause=WithdrawCause.TIMEOUT, placeholder=False, count=count) if count:
                if book.state is not ApplicationState.FAILING:
                    yield f"real ask {fact.allocation_key} is withdrawn for a timeout of others"
            case Allocated(placeholder=True, recovered=True):
                known = self._asked.get((fact.application_id, fact.allocation_key), [])
                if not all(one.placeholder for one in known):  # a real ask is not asked for again
                    self._outdated.add(fact.uuid)
            case ReleaseRequested(cause=ReleaseCause.GAVE_WAY) if fact.uuid not in self._outdated:
                self._returning[fact.uuid] = fact.rm_id, fact.partition, fact.application_id
            case ReleaseRequested(cause=ReleaseCause.PREEMPTED, placeholder=True) if fact.uuid not in self._outdated:
                if book.state is ApplicationState.ACCEPTED:
                    self._returning[fact.uuid] = fact.rm_id, fact.partition, fact.application_id
            case ReleaseRequested(cause=ReleaseCause.UNUSED):
                yield from life_invariants.unused(book, fact, now_ns)
            case Released(placeholder=True):
                yield from self._released(book, fact, later)
            case SwapRefused():
                self._refused.add((fact.application_id, fact.allocation_key))
                idle = book.idle(fact.task_group)
                asked = sum(isinstance(one, ReleaseRequested) and one.cause is ReleaseCause.TOO_SMALL for one in later)
                if not 0 < fact.placeholders <= min(asked, len(idle)):
                    yield f"{fact} with {len(idle)} idle placeholders, of which {asked} are asked to go"
            case GangCompleted():
                if (book.pending, len(book.placeholders) + 1) != (1, fact.placeholders):
                    yield f"{fact} before its last placeholder, with {book.pending} pending, {len(book.placeholders)}"
            case GangTimedOut():
                yield from self._timed_out(book, fact, now_ns)
            case GangGaveWay():
                first = self._books.by_name[fact.rm_id, fact.partition, fact.in_favour_of]
                if first.age > book.age or not (first.pending and book.pending):
                    yield f"{fact}, which is no earlier incomplete gang, or it is complete itself"

    def _gate(self, book: GangBook, fact: Allocated, partition: PartitionView) -> Iterator[str]:
        """The quotas and limits on the path need room for all that the gang lacks, and for what is to come of others
        (G2)."""
        groups = {one.application_id: one.group for one in partition.applications}
        user, group = book.spec.user, groups.get(book.spec.application_id, "")
        for queue in partition.queues:
            if not _is_below(fact.queue, queue):
                continue
            here = [
                (application_id, one)
                for (rm_id, part, application_id), one in self._books.by_name.items()
                if (rm_id, part) == (fact.rm_id, fact.partition) and _is_below(one.queue, queue)
            ]
            yield from _without_room(book, queue.path, queue.max, [one for _, one in here])
            is_named = any(user in limit.users for limit in queue.limits)
            for limit in queue.limits:
                if user in limit.users or ("*" in limit.users and not is_named):
                    whose = f"{queue.path} for user {user}"
                    yield from _without_room(book, whose, limit.max, [one for _, one in here if one.spec.user == user])
                if group and group in limit.groups:
                    whose = f"{queue.path} for group {group}"
                    of_group = [one for application_id, one in here if groups.get(application_id) == group]
                    yield from _without_room(book, whose, limit.max, of_group)

    def _placed_without_swap(self, book: GangBook, fact: Allocated) -> Iterator[str]:
        """A real ask takes a placeholder of its group first, and waits while some are to be placed (G3)."""
        if book.pending:
            yield f"{fact.uuid} is placed while {book.pending} placeholders are pending"
        if fact.task_group and (fact.application_id, fact.allocation_key) not in self._refused:
            required = fact.tags.get(REQUIRED_NODE_TAG)
            for one in book.idle(fact.task_group):  # those on other nodes are no use to it, if its own had no room
                if one.resources.lacks(fact.resources.items()) is None and required in (None, "", one.node_id):
                    yield f"{fact.uuid} takes new room, though placeholder {one.uuid} waits for it"

    def _swap_begun(self, book: GangBook, fact: AskWithdrawn, later: Sequence[Fact]) -> Iterator[str]:
        request = later[0] if later else None
        is_swap = isinstance(request, ReleaseRequested) and request.cause is ReleaseCause.REPLACED
        if not isinstance(request, ReleaseRequested) or not is_swap or request.uuid not in book.placeholders:
            yield f"{fact.allocation_key} awaits a placeholder, and no placeholder of it asked to go"
            return
        placeholder = book.placeholders[request.uuid]
        if book.pending:
            yield f"{fact.allocation_key} awaits a placeholder while {book.pending} placeholders are pending"
        if request.uuid in book.leaving or request.application_id != fact.application_id:
            yield f"{fact.allocation_key} awaits {request.uuid}, which is not its own, or goes anyway"
        if placeholder.resources.lacks(fact.resources.items()) is not None:
            yield f"{fact.allocation_key} of {fact.resources} awaits one of {placeholder.resources}"
        asked = self._asked.get((fact.application_id, fact.allocation_key), [])
        if not any((one.task_group, one.resources) == (placeholder.task_group, fact.resources) for one in asked):
            yield f"{fact.allocation_key} awaits a placeholder of task group {placeholder.task_group}"

    def _released(self, book: GangBook, fact: Released, later: Sequence[Fact]) -> Iterator[str]:
        request = book.leaving.get(fact.uuid)
        if fact.termination is TerminationType.PLACEHOLDER_REPLACED and (
            request is None or request.cause is not ReleaseCause.REPLACED
        ):
            yield f"{fact.uuid} ends as replaced, which it was not asked to be"
        is_returning = self._returning.pop(fact.uuid, None) is not None
        is_confirmed = request is not None and fact.termination is request.termination
        if is_returning and is_confirmed and book.state in PLACEABLE_STATES:
            keys = [one.allocation_key for one in later if isinstance(one, AskAdded) and one.placeholder]
            if fact.allocation_key not in keys:
                yield f"{fact.uuid} gave way and is not asked for again"

    def _room_taken(self, fact: Released, later: Sequence[Fact], partition: PartitionView) -> Iterator[str]:
        """Its ask takes the room, else that of another node (G4); judged where nothing else happens to the nodes."""
        if any(isinstance(one, Released | NodeChanged) for one in later):
            return
        for one in later:
            if isinstance(one, Allocated) and one.replaces == fact.uuid and one.node_id != fact.node_id:
                required = one.tags.get(REQUIRED_NODE_TAG, fact.node_id)
                if any(_has_room(node, one) for node in partition.nodes if node.node_id == fact.node_id == required):
                    yield f"{one.uuid} takes room on {one.node_id}, though there is some on {fact.node_id}"
            if isinstance(one, AskAdded) and one.awaited_placeholder:
                asked = self._asked.get((one.application_id, one.allocation_key), [])
                rooms = [node.node_id for node in partition.nodes if _has_room(node, one, node.reserved)]
                if rooms and not any(REQUIRED_NODE_TAG in ask.tags for ask in asked):
                    yield f"{one.allocation_key} waits anew, though there is room on {rooms}"

    def _timed_out(self, book: GangBook, fact: GangTimedOut, now_ns: int) -> Iterator[str]:
        for uuid, (rm_id, partition, application_id) in list(self._returning.items()):
            if (rm_id, partition, application_id) == (fact.rm_id, fact.partition, fact.application_id):
                del self._returning[uuid]
        if book.began_ns is None or now_ns < book.began_ns + life_invariants.timeout_ns(book.spec):
            yield f"is out of time, though its gang began {book.began_ns}"
        if fact.state in PLACEABLE_STATES and not book.has_run:
            yield f"is out of time and still {fact.state}, and nothing of it has run"
        idle = [one.uuid for one in book.placeholders.values() if one.uuid not in book.leaving]
        if idle or book.pending:
            yield f"is out of time, with placeholders {idle} not asked to go and {book.pending} pending"


def _without_room(book: GangBook, where: str, most: Amounts, counted: Sequence[GangBook]) -> Iterator[str]:
    """The resources of which the gang lacks more than is left beside the counted applications and their promises."""
    for name, limit in most.items():
        wanted = book.lacking[name]
        used = sum(one.held[name] for one in counted)
        promised = sum(one.promised[name] for one in counted)
        if wanted and used + promised + wanted > limit:
            amounts = f"{wanted} wanted, {used} used and {promised} promised"
            yield f"starts with {name} {amounts} in {where}, which has {limit}"


def _is_below(path: str, queue: QueueView) -> bool:
    return f"{path}.".startswith(f"{queue.path}.")


def _has_room(node: NodeView, fact: Allocated | AskAdded, kept: Amounts | None = None) -> bool:
    """`kept` is what others have there; of the node of its placeholder it need not look at that."""
    left = Resources(node.available).minus(kept or {})
    return (
        node.state == NodeState.SCHEDULABLE
        and all(amount >= 0 for amount in left.values())
        and all(amount <= left.get(name, 0) for name, amount in fact.resources.items())
    )
