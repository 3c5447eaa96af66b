"""A document checked against the models, so that one mistake does not hide the others.

Pydantic reports all values that are wrong on their own, but then has no model to compare values in. So what is wrong is
taken out and the rest is validated again: the checks between values see everything that is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from schedulerd.config.models import Amounts, QueueConfiguration
from schedulerd.settings.document import Data
from schedulerd.settings.problems import PROBLEMS_MAX, Finding, Path, suggest

_Wrong: TypeAlias = "dict[str | int, _Wrong]"
"""The paths of values that are wrong, as a tree; what has no branches is the value itself."""


def validate(data: Data) -> tuple[QueueConfiguration, list[Finding]]:
    """The configuration without the values that are wrong, and a finding for each of those.

    Beyond `PROBLEMS_MAX` findings the rest is not checked: there is one finding more, and an empty configuration.
    """
    findings: list[Finding] = []
    rest: Data = {} if data is None else data
    while True:
        try:
            return QueueConfiguration.model_validate(rest), findings
        except ValidationError as error:
            details = error.errors(include_url=False)
        findings.extend((detail["loc"], _message(detail)) for detail in islice(details, PROBLEMS_MAX + 1))
        if len(findings) > PROBLEMS_MAX:
            return QueueConfiguration(), findings
        before = rest
        rest = _without(rest, _tree(detail["loc"] for detail in details))
        assert rest != before, f"nothing to take out for {findings}"


def _tree(paths: Iterable[Path]) -> _Wrong:
    """All paths together, so that the data is gone through once, however many there are."""
    tree: _Wrong = {}
    for path in paths:
        branch = tree
        for step in path:
            branch = branch.setdefault(step, {})
    return tree


def _without(data: Data, wrong: _Wrong) -> Data:
    """The data without the values that are wrong; a list with such a value goes as a whole, because its other items
    must keep their places."""
    if not wrong:
        return {}
    if isinstance(data, dict):
        rest = dict(data)
        for step, below in wrong.items():
            if not isinstance(step, str) or step not in data:
                continue
            value = data[step]
            if not below or (isinstance(value, list) and not all(below.values())):
                del rest[step]
            else:
                rest[step] = _without(value, below)
        return rest
    if isinstance(data, list):
        return [_without(value, wrong[index]) if index in wrong else value for index, value in enumerate(data)]
    return data


def _message(detail: ErrorDetails) -> str:
    kind, path = detail["type"], detail["loc"]
    match kind:
        case "value_error":
            return str(detail["ctx"]["error"])
        case "extra_forbidden":
            return f"unknown key; {suggest(str(path[-1]), _model_at(path[:-1]).model_fields)}"
        case "model_type":
            model = _model_at(path)
            if model is Amounts:
                return "must be a mapping of resource names to amounts, like {memory: 64Gi, vcore: 16}"
            return f"must be a mapping with keys of {', '.join(sorted(model.model_fields))}"
        case "dict_type":
            return "must be a mapping of names to values"
        case "tuple_type":
            return "must be a list"
    return "has no value" if detail["input"] is None else "must be a single value, not a list or a mapping"


def _model_at(path: Path) -> type[BaseModel]:
    """The model of the mapping at `path`."""
    model: type[BaseModel] = QueueConfiguration
    for step in path:
        if isinstance(step, str):
            model = next(_models_in(model.model_fields[step].annotation))
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
