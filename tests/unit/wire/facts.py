"""Hypothesis strategies for any fact, with any content that a message of the interface can hold."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st

from schedulerd.core.resources import Resources

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=6)

st.register_type_strategy(Resources, st.dictionaries(TEXT, INT64, max_size=3).map(Resources))


def any_fact(*types: type) -> st.SearchStrategy[Any]:
    """Facts of the given types with any content an SI message can hold, from two resource managers."""
    numbers = {"at_ns": INT64, "asked_at_ns": INT64, "priority": st.integers(-(2**31), 2**31 - 1)}
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
