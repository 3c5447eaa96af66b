"""Hypothesis strategies for any fact, with any content that a message of the interface can hold."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Any

from hypothesis import strategies as st

from schedulerd.core.language.facts import fact as facts
from schedulerd.core.language.facts.unclaimed import UnclaimedEnded
from schedulerd.core.language.resources import Resources

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=6)

st.register_type_strategy(Resources, st.dictionaries(TEXT, INT64, max_size=3).map(Resources))


def any_fact(*types: type) -> st.SearchStrategy[Any]:
    """Facts of the given types with any content an SI message can hold, from two resource managers."""
    numbers = {"at_ns": st.integers(0, 2**62), "asked_at_ns": INT64, "priority": st.integers(-(2**31), 2**31 - 1)}
    texts = st.sampled_from(["", "a", "ä", "app-1"])
    return st.one_of(
        *(
            st.builds(
                fact_type,
                **{
                    field.name: numbers[field.name]
                    if field.name in numbers
                    else st.sampled_from(["rm-1", "rm-2"])
                    if field.name == "rm_id"
                    else texts
                    for field in dataclasses.fields(fact_type)
                    if field.name in numbers or field.type == "str"
                },
            )
            for fact_type in types
        )
    )


TOLD = (
    facts.Allocated,
    facts.ApplicationAccepted,
    facts.ApplicationChanged,
    facts.ApplicationRejected,
    facts.AskRejected,
    facts.AskWithdrawn,
    facts.EarlyAskReleased,
    facts.NodeAccepted,
    facts.NodeRejected,
    facts.Released,
    facts.ReleaseRequested,
    UnclaimedEnded,
)
"""What both dialects have a message for."""


def any_facts(*types: type, told: Sequence[type] = TOLD) -> st.SearchStrategy[list[Any]]:
    """Some of each that is told, and some of any, in any order: drawn from among all types each would be rare."""
    of_each = (st.lists(any_fact(one), max_size=2) for one in told)
    drawn = st.tuples(*of_each, st.lists(any_fact(*types), max_size=4))
    return drawn.map(lambda lists: list(chain(*lists))).flatmap(st.permutations)


def new_responses(said: Sequence[facts.Fact]) -> int:
    """How often a response is begun because an application is accepted, and the one before has the end of another
    application of its id."""
    ended: defaultdict[str, set[str]] = defaultdict(set)
    found = 0
    for fact in said:
        if isinstance(fact, facts.ApplicationAccepted) and fact.application_id in ended[fact.rm_id]:
            found += 1
            ended[fact.rm_id].clear()
        elif isinstance(fact, facts.ApplicationChanged) and fact.state.value in ("Completed", "Failed", "Expired"):
            ended[fact.rm_id].update([fact.application_id] * (fact.old_state is not None))
    return found
