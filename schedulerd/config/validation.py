"""A document checked against the models, so that one mistake does not hide the others.

Pydantic reports all values that are wrong on their own, but then has no model to compare values in. So what is wrong is
taken out and the rest is validated again: the checks between values see everything that is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from schedulerd.config.document import Data
from schedulerd.config.models import Amounts, QueueConfiguration
from schedulerd.config.problems import Finding, Path, suggest


def validate(data: Data) -> tuple[QueueConfiguration, list[Finding]]:
    """The configuration without the values that are wrong, and a finding for each of those."""
    findings: list[Finding] = []
    rest: Data = {} if data is None else data
    while True:
        try:
            return QueueConfiguration.model_validate(rest), findings
        except ValidationError as error:
            found = [(detail["loc"], _message(detail)) for detail in error.errors(include_url=False)]
        findings.extend(found)
        before = rest
        for path, _ in found:
            rest = _without(rest, path)
        assert rest != before, f"nothing to take out for {found}"


def _without(data: Data, path: Path) -> Data:
    """The data without the value at `path`; a list goes as a whole, because its other items must keep their places."""
    if not path:
        return {}
    step, *below = path
    if isinstance(data, dict) and isinstance(step, str) and step in data:
        keeps = below and not (len(below) == 1 and isinstance(data[step], list))
        rest = {key: value for key, value in data.items() if key != step}
        return {**rest, step: _without(data[step], tuple(below))} if keeps else rest
    if isinstance(data, list) and isinstance(step, int) and step < len(data):
        return [_without(value, tuple(below)) if index == step else value for index, value in enumerate(data)]
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
