"""Which of several shims of a cluster schedules: the one that holds the Lease.

    leadership = Leadership(open_transport, LeaseName("schedulerd", "schedulerd"), identity("pod-a"), LeaseTimes())
    async with leadership:
        leadership.may_lead(True)                   # everything is listed, and the daemon can be reached
        await leadership.elected()
        pool = WritePool(transport, may_write=leadership.seconds_left)
        ...
        await leadership.release()                  # nothing leaves any longer, and another one takes over at once

`Elector` decides; it has no clock and does no I/O. `LeaseKeeper` carries out what it decides on an event loop, and
`Leadership` runs that loop in a thread of its own, so that the lease is renewed while the shim's own loop is busy.
"""

from schedulerd.kubernetes.election.elector import Elector, LeaseTimes, Standing
from schedulerd.kubernetes.election.keeper import LeaseKeeper, LeaseLost, LeaseName
from schedulerd.kubernetes.election.leadership import Leadership, identity

__all__ = ["Elector", "Leadership", "LeaseKeeper", "LeaseLost", "LeaseName", "LeaseTimes", "Standing", "identity"]
