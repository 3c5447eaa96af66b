"""Node selectors in the tags of asks: placement constraints for dialects that have no field for them.

The syntax is that of Kubernetes label selectors, which the authors of such tags know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from schedulerd.core.language.checks import shown
from schedulerd.core.language.commands import Expression, Operator
from schedulerd.core.state.constraints.expressions import canonical

NODE_SELECTOR_TAG = "schedulerd.io/node-selector"
"""Tag of an ask: requirements on node attributes, separated by commas; all must hold."""

SELECTOR_LENGTH_MAX = 16_384
"""In characters."""

TEXTS_MAX = 4_096
"""How many parsed selectors are cached. The asks of one workload usually have the same one."""

_REQUIREMENT = re.compile(
    r"""\s*+(?:
        !\s*+(?P<absent>[^\s,()=!<>]++)
        | (?P<key>[^\s,()=!<>]++)
          (?: \s*+(?P<operator>==?|!=)\s*+(?P<value>[^\s,()=!<>]*+)
            | \s++(?P<set>in|notin)\s*+\((?P<values>[^()]*+)\) )?
    )\s*+(?P<end>,|$)""",
    re.VERBOSE,
)
"""All repetitions are possessive, so matching takes time linear in the length of the text."""


class SelectorMistake(ValueError):
    """The text is not a valid selector. The message says where, and what would be right."""


def node_expressions(tags: Mapping[str, str]) -> tuple[Expression, ...]:
    """The expressions of the selector in the tags, in canonical order; empty without a selector.

    Raises SelectorMistake.
    """
    text = tags.get(NODE_SELECTOR_TAG)
    return parse(text) if text else ()


@lru_cache(TEXTS_MAX)
def parse(text: str) -> tuple[Expression, ...]:
    """Parses a selector such as `zone in (eu-1,eu-2),gpu,!spot,arch=arm64,tier!=test` into expressions in canonical
    order.

    Raises SelectorMistake.
    """
    if len(text) > SELECTOR_LENGTH_MAX:
        raise SelectorMistake(f"it has {len(text)} characters; at most {SELECTOR_LENGTH_MAX} are allowed")
    found: list[Expression] = []
    position, is_complete = 0, not text.strip()
    while not is_complete:
        requirement = _REQUIREMENT.match(text, position)
        if requirement is None:
            raise SelectorMistake(
                f"{shown(text[position:].strip())} is no requirement; write key, !key, key=value, key!=value, "
                "key in (a,b) or key notin (a,b), separated by commas"
            )
        found.append(_expression(requirement))
        position = requirement.end()
        is_complete = not requirement["end"]
    return canonical(found)


def selector(expressions: Iterable[Expression]) -> str:
    """The selector text of these expressions, the inverse of `parse`; '' for no expressions."""
    return ",".join(map(_requirement, expressions))


def _requirement(one: Expression) -> str:
    values = f"({','.join(one.values)})"
    match one.operator:
        case Operator.IN:
            return f"{one.key}={one.values[0]}" if len(one.values) == 1 else f"{one.key} in {values}"
        case Operator.NOT_IN:
            return f"{one.key}!={one.values[0]}" if len(one.values) == 1 else f"{one.key} notin {values}"
        case Operator.EXIST:
            return one.key
        case Operator.NOT_EXIST:
            return f"!{one.key}"


def _expression(requirement: re.Match[str]) -> Expression:
    if requirement["absent"]:
        return Expression(requirement["absent"], Operator.NOT_EXIST)
    key = requirement["key"]
    if requirement["operator"]:
        values: tuple[str, ...] = (requirement["value"],)
        operator = Operator.NOT_IN if requirement["operator"] == "!=" else Operator.IN
    elif requirement["set"]:
        values = tuple(value.strip() for value in requirement["values"].split(","))
        operator = Operator.NOT_IN if requirement["set"] == "notin" else Operator.IN
    else:
        return Expression(key, Operator.EXIST)
    if "" in values:
        raise SelectorMistake(
            f"{shown(requirement[0].strip(' ,'))} has an empty value; write !{key} for nodes without the attribute"
        )
    return Expression(key, operator, values)
