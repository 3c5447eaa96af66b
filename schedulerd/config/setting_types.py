"""Types of the settings: which texts of a flag, of an environment variable or of the settings file are valid values."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from schedulerd.address import unix_path
from schedulerd.settings.values import address

CLASS_NAME_LENGTH_MAX = 256
"""Of a priority class: a name in Kubernetes has 253 at most."""


class HttpAccess(StrEnum):
    """Which clients get an answer on an HTTP path."""

    AUTO = "auto"
    """As `/api/v1`: clients with a token of the role that is needed; without `http_tokens_file`, those on this
    machine."""
    ON = "on"
    """All clients that reach the port."""
    TOKEN = "token"
    """Clients with a token of `http_tokens_file` that has the role that is needed."""
    OFF = "off"
    """No client."""


class GangStyle(StrEnum):
    """What happens to an application whose gang does not fit in time: it fails (Hard), or continues without it
    (Soft)."""

    HARD = "Hard"
    SOFT = "Soft"


def capitalized(value: object) -> object:
    return value.capitalize() if isinstance(value, str) else value


def classes(value: object) -> object:
    """Converts NAME=NUMBER pairs of a flag or environment variable to a mapping; a mapping of the file stays as it
    is."""
    if not isinstance(value, str):
        return value
    pairs = [pair.partition("=") for pair in value.split(",")]
    if not all(sign for _, sign, _ in pairs):
        raise ValueError("must be NAME=NUMBER pairs with commas between them, like high=1000,low=-10")
    if len({name.strip() for name, _, _ in pairs}) < len(pairs):
        raise ValueError("gives a name twice; give every name once")
    return {name.strip(): number.strip() for name, _, number in pairs}


def _class_name(name: str) -> str:
    if not 0 < len(name) <= CLASS_NAME_LENGTH_MAX:
        raise ValueError(f"a priority class needs a name of 1 to {CLASS_NAME_LENGTH_MAX} characters")
    return name


def _hosts(value: object) -> object:
    """Splits the names of a flag or environment variable; names are compared in lower case."""
    names = value.split(",") if isinstance(value, str) else value
    if isinstance(names, (list, tuple)):
        return [one.strip().lower() if isinstance(one, str) else one for one in names if one != ""]
    return names


Hosts = Annotated[tuple[str, ...], BeforeValidator(_hosts)]
ClassName = Annotated[str, AfterValidator(_class_name)]
Priority = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


ORIGINS_MAX = 100
_ORIGIN = re.compile(r"\*|https?://[A-Za-z0-9._-]+(:[0-9]{1,5})?|https?://\[[0-9a-fA-F:.]+\](:[0-9]{1,5})?")


def _origins(value: object) -> object:
    """Splits the list of a flag or environment variable."""
    return [one for one in map(str.strip, value.split(",")) if one] if isinstance(value, str) else value


def _origin(origin: str) -> str:
    if len(origin) > 300 or not _ORIGIN.fullmatch(origin):
        raise ValueError("an origin is http:// or https://, a host and perhaps a port, without a path; or * for all")
    return origin.lower()


Origins = Annotated[
    tuple[Annotated[str, AfterValidator(_origin)], ...], BeforeValidator(_origins), Field(max_length=ORIGINS_MAX)
]


def _grpc_address(value: str) -> str:
    return value if unix_path(value) is not None else address(value)


GrpcAddress = Annotated[str, AfterValidator(_grpc_address)]
Seconds = Annotated[float, Field(gt=0, le=1_000_000_000, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)]
