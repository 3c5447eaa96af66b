"""Kinds of values that settings of several processes have."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from schedulerd.address import split_address, unix_path


class LogLevel(StrEnum):
    """The least severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """One JSON object a line for machines, or text for people."""

    JSON = "json"
    CONSOLE = "console"


def lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def listed(value: object) -> object:
    """Values with commas between them, of a flag or variable, as a tuple; a list of the file stays as it is."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def address(value: str) -> str:
    """HOST:PORT to listen on. Raises ValueError."""
    split_address(value)
    return value


def target(value: str) -> str:
    """HOST:PORT to connect to, or unix:/PATH. Raises ValueError."""
    if unix_path(value) is None and split_address(value)[1] == 0:
        raise ValueError("must be HOST:PORT with a port from 1 to 65535, like localhost:3333, or unix:/PATH")
    return value


Address = Annotated[str, AfterValidator(address)]
Target = Annotated[str, AfterValidator(target)]
LogLevelName = Annotated[LogLevel, BeforeValidator(lower)]
LogFormatName = Annotated[LogFormat, BeforeValidator(lower)]
