"""Reasons for waiting as rows, each with a link to the thing that is waited for."""

from __future__ import annotations

from schedulerd.core.explain.causes import GangCause, NoRoomCause, PredicateCause, ReservedCause, RuleCause
from schedulerd.core.explain.values import Reason
from schedulerd.daemon.admin.ui.addresses import Addresses
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.texts import count, many, row_key
from schedulerd.daemon.admin.ui.view import View
from schedulerd.observe.explain_sentences import reason_clause


def add_reasons(
    view: View, context: Context, reasons: list[Reason], left_out: int, *, unexplained: int = 0, of_one: bool = False
) -> None:
    """Adds the list `reasons`; `of_one`: all are of one application. Of `unexplained` allocations the reason was not
    found."""
    view.begin("reasons")
    most = max((one.allocations for one in reasons), default=0)
    for one in reasons:
        clause = reason_clause(one, context.now.monotonic_ns, is_sized=False)
        view.add(
            "reasons",
            row_key(one.state, str(_thing(one)), one.application_id if of_one else ""),
            count=count(one.allocations),
            what=clause[:1].upper() + clause[1:],
            what__href=_link(one, context.links),
            apps=many(one.applications, "application"),
            ask=one.pod or one.allocation_key,
            ask__href=context.links.ask(one.application_id, one.allocation_key),
            example=one.application_id,
            example__href=context.links.application(one.application_id),
            bar__class=f"u w{max(1, one.allocations * 100 // most)}",
        )
    said = [many(left_out, "further reason")] if left_out else []
    said += [f"{many(unexplained, 'allocation')} whose reasons were not looked for"] if unexplained else []
    view.put(reasons_left_out=f"and {' and '.join(said)}" if said else "")


def _thing(one: Reason) -> tuple[object, ...]:
    """What is waited for, without numbers that change."""
    match one.cause:
        case RuleCause() as cause:
            return cause.rule, cause.queue, cause.resource, cause.account
        case GangCause() as cause:
            return ("gang", cause.application_id)
        case NoRoomCause() as cause:
            return cause.why, cause.resource
        case _:
            return ()


def _link(one: Reason, links: Addresses) -> str:
    match one.cause:
        case RuleCause() as cause:
            return links.queue(cause.queue)
        case GangCause() as cause:
            return links.application(cause.application_id)
        case PredicateCause() | ReservedCause() as cause:
            return links.node(cause.node_id)
        case _:
            return links.ask(one.application_id, one.allocation_key)
