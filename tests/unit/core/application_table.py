"""The life of an application as the documents have it, written down once more: what the core's own table must say.

States are those of SI 2023-06 (SEMANTICS A). Failing is the gang design's *killed* and Completing its *waiting*; hard
gangs fail and soft ones resume (SEMANTICS G5), a run that takes too long fails (E3), whatever ended is forgotten (G6).
"""

from __future__ import annotations

from schedulerd.core.language.lifecycles import ApplicationState as S
from schedulerd.core.language.lifecycles import ApplicationTrigger as T

Cell = tuple[S, T]

TABLE: dict[Cell, S] = {
    (S.NEW, T.RUN): S.ACCEPTED,
    (S.NEW, T.REJECT): S.REJECTED,
    (S.NEW, T.FAIL): S.FAILING,
    (S.NEW, T.RESUME): S.RESUMING,
    (S.ACCEPTED, T.RUN): S.STARTING,
    (S.ACCEPTED, T.COMPLETE): S.COMPLETING,
    (S.ACCEPTED, T.FAIL): S.FAILING,
    (S.ACCEPTED, T.RESUME): S.RESUMING,
    (S.STARTING, T.RUN): S.RUNNING,
    (S.STARTING, T.COMPLETE): S.COMPLETING,
    (S.STARTING, T.FAIL): S.FAILING,
    (S.STARTING, T.RESUME): S.RESUMING,
    (S.RUNNING, T.RUN): S.RUNNING,
    (S.RUNNING, T.COMPLETE): S.COMPLETING,
    (S.RUNNING, T.FAIL): S.FAILING,
    (S.RUNNING, T.RESUME): S.RESUMING,
    (S.COMPLETING, T.RUN): S.RUNNING,
    (S.COMPLETING, T.RESUME): S.ACCEPTED,
    (S.COMPLETING, T.COMPLETE): S.COMPLETED,
    (S.COMPLETED, T.EXPIRE): S.EXPIRED,
    (S.FAILING, T.FAIL): S.FAILED,
    (S.FAILED, T.EXPIRE): S.EXPIRED,
    (S.REJECTED, T.EXPIRE): S.EXPIRED,
    (S.RESUMING, T.RUN): S.ACCEPTED,
}
"""Every legal cell; all others are illegal."""
