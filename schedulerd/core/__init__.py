"""The pure scheduler: `facts = scheduler.step(now_ns, command)`.

Nothing in this package uses clocks, event loops, sockets, randomness or logging, so the same history of commands always
gives the same facts. An import contract in CI checks this. The rest of this text is the contract between a `Scheduler`
(`schedulerd.core.scheduler`) and its host, the program that calls `step`.

The loop of a host. `receive` and `receive_nowait` return the next command, or None if there is none (by the deadline);
`monotonic_ns` is a monotonic clock, and `deliver` passes facts on:

    scheduler = Scheduler(timeouts, new_uuid, matches)
    dropped = False
    while True:
        if dropped or scheduler.wants_cycle():
            command = receive_nowait()
        else:
            command = receive(until_ns=scheduler.next_deadline_ns())
        if command is not None:
            deliver(scheduler.step(monotonic_ns(), command))
        deadline_ns = scheduler.next_deadline_ns()
        if deadline_ns is not None and deadline_ns <= monotonic_ns():
            deliver(scheduler.step(monotonic_ns(), RingAlarms()))
        if scheduler.wants_cycle():
            deliver(scheduler.step(monotonic_ns(), RunCycle(200)))
        dropped = scheduler.dismantle(200)

`schedulerd.daemon.runtime.owner` is the host in production: it takes commands for some milliseconds, then runs one
cycle, and delivers the facts of all these steps together. `tests.sim.virtual_time` is a host with a virtual clock.

Construction. `new_uuid` is the only source of ids: to repeat a history, give the scheduler the same UUIDs in the same
order. `matches` tells whether a regular expression matches anywhere in a text, and must take a bounded time.

Commands (`schedulerd.core.language.commands`). One call of `step` handles one command to its end. The order of the
calls is the order of history; the scheduler waits for nothing and calls nothing back. A resource manager (RM) begins
with `RegisterResourceManager`. Nothing is allocated for it before `ConnectResourceManager`, which says that it can
receive allocations, and after `DisconnectResourceManager`. Commands of an RM that is not registered are ignored, with a
fact that says so. Results that the scheduler asks an RM for arrive as a command as well (`GivePredicateResults`). The
scheduler never changes a command, and keeps parts of it: the host must not change a command either.

Facts (`schedulerd.core.language.facts.fact`). `step` returns all facts about the command, in the order in which they
must be told. A reader that adds and subtracts all facts in this order has the same amounts as the scheduler. Deliver
them in the order of the steps, without gaps. Facts share mappings with the state: read them, never change them.
`failed_checks` has the exceptions of the last step, for the log.

Time. `now_ns` is a monotonic time in nanoseconds, from any zero. All deadlines use it; the scheduler knows no other
time and no wall clock. A time before that of an earlier step counts as that earlier time.

RingAlarms. Any step can set or cancel alarms, so ask for `next_deadline_ns` again after each step, and send
`RingAlarms` when it is reached. One step rings a bounded number of alarms. If more are due, the next deadline is in the
past: send `RingAlarms` again. An early `RingAlarms` rings nothing and does no harm. A late one delays what is due, and
nothing else: an alarm that was cancelled in the meantime does not ring.

RunCycle. Send it when `wants_cycle` is true. Its number bounds what one cycle may allocate. It is a count and part of
the command, because a bound of time would make a repeated history differ. Choose it so that a cycle holds the host for
some milliseconds. One cycle need not be the last: ask `wants_cycle` again. Do not queue cycles in advance.

Exceptions. Nothing that an RM sends makes `step` raise. An item that cannot be accepted is rejected, with a fact that
says why; so is an item whose check raises, which is a bug, but has changed nothing
(`schedulerd.core.state.step_context`). An exception that leaves `step` is a bug as well, and the state cannot be
trusted after it: do not call `step` again. The daemon exits, and rebuilds its state from the reports of the RMs.

Dismantling. What a step drops (an RM that registers again, a partition that is removed) is freed by `dismantle`, some
pieces at a time, so that no step takes long. It returns whether more is left. It changes nothing that a step, a fact or
a view shows, so it is no command and not part of a history. Call it between steps.

Threads. A scheduler is not thread safe. The state may be read between steps, in the same thread
(`schedulerd.core.views.view`, `schedulerd.core.invariants.all`). Nothing is stored: a host that wants to repeat a
history records commands and times (`schedulerd.journal`).
"""
