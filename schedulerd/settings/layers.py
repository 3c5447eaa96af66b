"""Fills a model of settings from flags, the environment, a file and the defaults, in that order.

The layers are merged before they are validated, so that a setting means the same wherever it comes from and an error
can say where to correct it: `--grpc-bind`, `SCHEDULERD_GRPC_BIND`, or a line of the settings file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from schedulerd.settings.document import Document, read_document
from schedulerd.settings.problems import Problem, did_you_mean, suggest

ModelT = TypeVar("ModelT", bound=BaseModel)

_KEY_STEP = "[key]"
"""How pydantic marks a problem with a key of a mapping, behind that key."""

# What Kubernetes adds to the environment of every container if there is a service with a name like schedulerd.
_SERVICE_VARIABLE = re.compile(r"(.*_)?SERVICE_(HOST|PORT(_.+)?)|(.*_)?PORT(_[0-9]+_.+)?")


class SettingsInvalid(ValueError):
    """Settings that cannot be used. The text lists every problem on a line of its own."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        """All that is wrong; never empty. The path of a problem is the flag, variable or key to correct."""
        super().__init__("\n  ".join(["the settings are not valid", *map(str, self.problems)]))


@dataclass(frozen=True, slots=True)
class _Layers:
    """The values given, by where they come from; None and an empty text are the same as not given."""

    model: type[BaseModel]
    prefix: str
    flags: Mapping[str, object]
    environment: Mapping[str, object]
    document: Document

    def merged(self) -> dict[str, object]:
        return {**_given(self._file()), **self.environment, **self.flags}

    def _file(self) -> Mapping[str, object]:
        return self.document.data if isinstance(self.document.data, dict) else {}

    def problem(self, detail: ErrorDetails) -> Problem:
        name = str(detail["loc"][0]) if detail["loc"] else ""
        message = self._message(detail)
        if name in self.flags:
            return Problem(f"--{name.replace('_', '-')}", None, str(self.flags[name]), message)
        if name in self.environment:
            return Problem(f"{self.prefix}{name.upper()}", None, str(self.environment[name]), message)
        return self.document.problem(tuple(step for step in detail["loc"] if step != _KEY_STEP), message)

    def _message(self, detail: ErrorDetails) -> str:
        if detail["type"] == "extra_forbidden":
            return f"unknown setting; {suggest(str(detail['loc'][0]), self.model.model_fields)}"
        if detail["type"] == "value_error":
            return str(detail["ctx"]["error"])
        return (
            detail["msg"]
            .replace("Input should", "must")
            .replace("Path does not point to", "must be an existing path to")
        )


def load_layers(
    model: type[ModelT],
    prefix: str,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    file: Path | None = None,
    other_prefixes: tuple[str, ...] = (),
) -> ModelT:
    """The settings of a flag, else of the environment variable PREFIX_NAME, else of the file, else the default.

    `flags` has the names of the fields; None is a flag that was not given. Variables with one of `other_prefixes` are
    settings of another command. Raises SettingsInvalid with all problems.
    """
    document = _read(file)
    if document.problems:
        raise SettingsInvalid(document.problems)
    if not isinstance(document.data, dict | None):
        raise SettingsInvalid([document.problem((), "a settings file is a mapping of names to values")])
    given = dict(_from_environment(model, prefix, environ))
    layers = _Layers(model, prefix, _given(flags), _given(given), document)
    problems = list(_misspelt(model, prefix, environ, other_prefixes))
    try:
        settings = model.model_validate(layers.merged())
    except ValidationError as error:
        problems.extend(map(layers.problem, error.errors(include_url=False)))
    if problems:
        raise SettingsInvalid(problems)
    return settings


def _read(file: Path | None) -> Document:
    if file is None:
        return Document(None, {}, ())
    try:
        return read_document(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        return Document(None, {}, (Problem("--settings", None, str(file), f"cannot be read: {error}"),))


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value not in (None, "")}


def _from_environment(model: type[BaseModel], prefix: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in model.model_fields:
        value = environ.get(f"{prefix}{name.upper()}")
        if value is not None:
            yield name, value


def _misspelt(
    model: type[BaseModel], prefix: str, environ: Mapping[str, str], other_prefixes: tuple[str, ...]
) -> Iterator[Problem]:
    """Variables that are nearly a setting. Others with our prefix are not ours: Kubernetes makes such names too."""
    known = [f"{prefix}{name.upper()}" for name in model.model_fields]
    for variable, value in environ.items():
        name = variable.removeprefix(prefix)
        if name == variable or variable in known or _SERVICE_VARIABLE.fullmatch(name):
            continue
        if other_prefixes and variable.startswith(other_prefixes):
            continue
        if hint := did_you_mean(name, model.model_fields):
            yield Problem(variable, None, value, f"unknown setting; {hint}")
