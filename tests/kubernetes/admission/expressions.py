"""Evaluates what API servers evaluate of webhooks and policies: rules, selectors, and conditions in CEL.

The expressions run in Google's CEL in C++, with the libraries that API servers from 1.30 on have; API servers run the
one in Go. `variables` of a policy are put in place of their names. **That is not what a server does**: it looks a
variable up by its name, and `.?` or `[?` behind the name of one that is an optional finds nothing there, while it works
here. Such expressions are refused here (`Policy`). What passes is what the texts mean, not that a server refuses:
`tests/kubernetes/contract/test_users_policy.py` asks a server, where there is one that has policies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

JSON = dict[str, Any]
VARIABLE = re.compile(r"\bvariables\.(\w+)\b")
OPTIONAL_OF_VARIABLE = re.compile(r"\bvariables\.\w+\s*(\.\?|\[\?)")
Allows = Callable[[JSON], bool]
"""Whether an authorizer allows the user of the request group, resource, namespace, name and verb."""


class ExpressionFailed(Exception):
    """With what CEL says. API servers then go by the failurePolicy."""


STEPS = ("group", "resource", "namespace", "name", "check")
"""Methods of the authorizer, each of which notes what is asked for."""
_AUTHORIZER: ContextVar[Allows] = ContextVar("authorizer")


def _method(name: str, parameters: list[Any], returns: Any, does: Callable[..., Any]) -> Any:
    overload = cel.Overload(f"authorizer_{name}", returns, parameters, is_member=True, impl=does)
    return cel.FunctionDecl(name, [overload])


def _step(name: str) -> Any:
    types = [cel.Type.MAP, cel.Type.STRING]
    return _method(name, types, cel.Type.MAP, lambda asked, value: {**asked, name: value})


@cache
def _environment() -> Any:
    allowed = _method("allowed", [cel.Type.MAP], cel.Type.BOOL, lambda asked: _AUTHORIZER.get()({**asked}))
    return cel.NewEnv(
        variables={"authorizer": cel.Type.MAP, **dict.fromkeys(("object", "oldObject", "request"), cel.Type.DYN)},
        extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()],
        functions=[*map(_step, STEPS), allowed],
    )


@cache
def _compiled(expression: str) -> Any:
    return _environment().compile(expression)


def nothing(_: JSON) -> bool:
    return False


def evaluate(expression: str, asked: JSON, allows: Allows = nothing) -> Any:
    """Of the request of an AdmissionReview: True, False or a text. Raises ExpressionFailed, and what CEL's compiler
    raises."""
    data = {
        "object": asked.get("object"),
        "oldObject": asked.get("oldObject"),
        "request": {key: value for key, value in asked.items() if key not in ("object", "oldObject")},
        "authorizer": {},
    }
    token = _AUTHORIZER.set(allows)
    try:
        result = _compiled(expression).eval(data=data)
    finally:
        _AUTHORIZER.reset(token)
    if result.type() not in (cel.Type.BOOL, cel.Type.STRING):
        raise ExpressionFailed(f"{expression}: {result.value()}")
    return result.plain_value()


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """A LabelSelector, with the operators that are in use."""
    selector = selector or {}
    for one in selector.get("matchExpressions") or ():
        assert one["operator"] == "NotIn", f"teach tests/kubernetes/admission/expressions.py {one['operator']}"
        if labels.get(one["key"]) in one["values"]:
            return False
    return (selector.get("matchLabels") or {}).items() <= labels.items()


def matches_rule(rule: JSON, asked: JSON) -> bool:
    resource = asked["resource"]
    return (
        asked["operation"] in rule["operations"]
        and bool({resource["group"], "*"} & set(rule["apiGroups"]))
        and bool({resource["version"], "*"} & set(rule["apiVersions"]))
        and bool({_path(asked), "*"} & set(rule["resources"]))
    )


def _path(asked: JSON) -> str:
    """RESOURCE or RESOURCE/SUBRESOURCE."""
    return "/".join(filter(None, (asked["resource"]["resource"], asked.get("subResource", ""))))


def is_asked(webhook: JSON, asked: JSON, labels: Mapping[str, str] | None = None, allows: Allows = nothing) -> bool:
    """Whether the API server asks a webhook. `labels`: of the namespace, if it has more than its name."""
    of_namespace = {"kubernetes.io/metadata.name": asked["namespace"], **(labels or {})}
    objects = [one for one in (asked.get("object"), asked.get("oldObject")) if one]
    of_objects = [one.get("metadata", {}).get("labels") or {} for one in objects]
    return (
        any(matches_rule(rule, asked) for rule in webhook["rules"])
        and selects(webhook.get("namespaceSelector"), of_namespace)
        and any(selects(webhook.get("objectSelector"), one) for one in of_objects)
        and all(evaluate(one["expression"], asked, allows) for one in webhook.get("matchConditions") or ())
    )


class Policy:
    """A ValidatingAdmissionPolicy that is bound to everything."""

    def __init__(self, document: JSON) -> None:
        self._spec = document["spec"]
        self._variables = {one["name"]: one["expression"] for one in self._spec["variables"]}
        for expression in self.expressions():
            assert not OPTIONAL_OF_VARIABLE.search(expression), f"a server finds nothing there: {expression}"

    def expressions(self) -> list[str]:
        """All of the policy's."""
        parts = ("variables", "matchConditions", "validations")
        found = [one for part in parts for one in self._spec[part]]
        return [one[key] for one in found for key in ("expression", "messageExpression") if key in one]

    def refusal(self, asked: JSON) -> str:
        """What the user is told; empty if the request passes."""
        constraints = self._spec["matchConstraints"]
        as_webhook = {**constraints, "rules": constraints["resourceRules"]}
        conditions = [{"expression": self._inlined(one["expression"])} for one in self._spec["matchConditions"]]
        if not is_asked({**as_webhook, "matchConditions": conditions}, asked):
            return ""
        for one in self._spec["validations"]:
            if evaluate(self._inlined(one["expression"]), asked) is not True:
                if "messageExpression" not in one:
                    return str(one["message"])
                return str(evaluate(self._inlined(one["messageExpression"]), asked))
        return ""

    def _inlined(self, expression: str) -> str:
        while VARIABLE.search(expression):
            expression = VARIABLE.sub(lambda found: f"({self._variables[found[1]]})", expression)
        return expression
