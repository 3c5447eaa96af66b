"""Requests the releases of the victims that a reservation needs."""

from __future__ import annotations

from collections.abc import Sequence

from schedulerd.core.language.ask_tags import ask_name
from schedulerd.core.language.facts.fact import ReleaseCause
from schedulerd.core.language.facts.preemption import Preempted
from schedulerd.core.state.actions import releases
from schedulerd.core.state.ledger import commit_room
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.step_context import StepContext
from schedulerd.sentences import preemption


def release_victims(context: StepContext, reservation: Reservation, victims: Sequence[Allocation], why: str) -> None:
    """Sends the `Preempted` fact and requests the release of each victim. No room is freed before the RM confirms."""
    application, ask = reservation.application, reservation.ask
    context.emit(
        Preempted(
            rm_id=application.rm_id,
            partition=application.partition_name,
            queue=application.queue.path,
            application_id=application.application_id,
            allocation_key=ask.key,
            node_id=reservation.node.node_id,
            victims=tuple((one.application.queue.path, one.uuid) for one in victims),
            why=why,
            number=reservation.number,
        )
    )
    message = preemption.victim(ask_name(application.application_id, ask.key, ask.spec.tags), why)
    partition = context.partition_of(application)
    for victim in victims:
        commit_room.make_room(reservation, victim, context.now_ns)
        releases.request_release(context, partition, victim, ReleaseCause.PREEMPTED, message)
