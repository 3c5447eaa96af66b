"""Every move of a resource manager through the scheduler; what is no move changes nothing."""

from __future__ import annotations

from itertools import product

from schedulerd.core.language.commands import (
    AbsenceCause,
    Command,
    ConnectResourceManager,
    DisconnectResourceManager,
    StopCause,
    StopResourceManager,
)
from schedulerd.core.language.facts.fact import ResourceManagerChanged
from schedulerd.core.language.lifecycles import ResourceManagerState as R
from schedulerd.core.language.lifecycles import ResourceManagerTrigger as C
from schedulerd.core.scheduler import Scheduler
from tests.loops import each_row
from tests.unit.core.builders import a_scheduler
from tests.unit.core.life_tables import RESOURCE_MANAGER_TABLE
from tests.unit.daemon.recording import registration

COMMANDS: dict[C, Command] = {
    C.REGISTER: registration(),
    C.CONNECT: ConnectResourceManager("rm"),
    C.DISCONNECT: DisconnectResourceManager("rm", AbsenceCause.GONE),
    C.STOP: StopResourceManager("rm", StopCause.UNREGISTERED),
}
LEAD_TO: dict[R, tuple[C, ...]] = {
    R.STOPPED: (),
    R.INIT: (C.REGISTER,),
    R.RUNNING: (C.REGISTER, C.CONNECT),
    R.PAUSED: (C.REGISTER, C.CONNECT, C.DISCONNECT),
}
"""The triggers that lead to a state."""


def state_of(scheduler: Scheduler) -> R:
    rm = scheduler.cluster.resource_managers.get("rm")
    return rm.state if rm is not None else R.STOPPED


@each_row(("state", "trigger"), list(product(R, C)))
def test_a_resource_manager_moves_by_its_table(state: R, trigger: C) -> None:
    scheduler = a_scheduler()
    for before in LEAD_TO[state]:
        scheduler.step(1, COMMANDS[before])
    assert state_of(scheduler) is state
    facts = scheduler.step(2, COMMANDS[trigger])
    to = RESOURCE_MANAGER_TABLE.get((state, trigger), state)
    assert state_of(scheduler) is to
    is_told = to is not state or trigger is C.REGISTER
    assert [one.state for one in facts if isinstance(one, ResourceManagerChanged)] == ([to] if is_told else [])
