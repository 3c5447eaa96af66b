"""Contexts: which daemon a command talks to, with which token. They are in a file that only its owner may read.

    current: prod
    contexts:
      prod:
        server: https://scheduler.example:9080
        token: ...
        ca_file: /etc/schedulerd/ca.pem

A token never stands in an argument of a command, where other users of the machine can read it, nor in the environment:
a variable names the file that has it.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

DEFAULT_SERVER = "http://127.0.0.1:9080"
SERVER_VARIABLE, TOKEN_FILE_VARIABLE = "SCHEDULERD_SERVER", "SCHEDULERD_TOKEN_FILE"
"""Variables of the environment, for scripts and containers; they come before the current context."""
FILE_BYTES_MAX = 65_536
"""Maximum size of the file of contexts, and of a file with a token."""


class ContextProblem(Exception):
    """The file cannot be used, or has no such context; the text says what to do."""


class Context(BaseModel):
    """One daemon."""

    model_config = ConfigDict(extra="forbid")

    server: str = DEFAULT_SERVER
    token: str = Field(default="", repr=False)
    ca_file: str = ""
    """Certificate authorities (PEM); empty: those of the system."""

    def problem(self) -> str:
        """What is wrong with it; '' if nothing is."""
        try:
            parts = urlsplit(self.server)
            _ = parts.port  # is read here: it is not checked before
        except ValueError as error:
            return f"server is {self.server!r}: {error}; it must be like http://HOST:PORT"
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return f"server is {self.server!r}; it must be like http://HOST:PORT"
        if parts.username or parts.password or parts.query or parts.fragment:
            return "server must have no user, password or query"
        return ""

    def is_at(self, server: str) -> bool:
        """Whether this is the address of its server, which may be written in several ways."""
        try:
            return _normal(server) == _normal(self.server)
        except ValueError:
            return False


def _normal(server: str) -> tuple[str, str, int | None, str]:
    """Raises `ValueError`."""
    parts = urlsplit(server)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port, parts.path.rstrip("/")


class ContextFile(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(extra="forbid")

    current: str = ""
    contexts: dict[str, Context] = {}


@dataclass(slots=True)
class Contexts:
    """The contexts of a user."""

    path: Path
    content: ContextFile = field(default_factory=ContextFile)

    def choose(self, name: str) -> Context:
        """The context with this name, or the current one; a daemon on this machine if there is no file. Raises
        `ContextProblem`."""
        wanted = name or self.content.current
        if not wanted:
            return Context()
        found = self.content.contexts.get(wanted)
        if found is None:
            known = ", ".join(self.content.contexts) or "none"
            raise ContextProblem(f"{self.path} has no context {wanted!r}; it has {known}")
        return found

    def save(self) -> None:
        """Writes the file for its owner only. Raises `ContextProblem`."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                YAML().dump(self.content.model_dump(), file)
            new.replace(self.path)
        except OSError as error:
            raise ContextProblem(f"{self.path} cannot be written: {error.strerror}") from error


def of_environment() -> Context | None:
    """The daemon in `$SCHEDULERD_SERVER`, with the token in the file `$SCHEDULERD_TOKEN_FILE`; None if neither is set.
    Raises `ContextProblem`."""
    server, file = os.environ.get(SERVER_VARIABLE, ""), os.environ.get(TOKEN_FILE_VARIABLE, "")
    if not server and not file:
        return None
    token = ""
    if file:
        try:
            with Path(file).open("rb") as opened:
                token = opened.read(FILE_BYTES_MAX).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ContextProblem(f"{TOKEN_FILE_VARIABLE} {file} cannot be read: {error}") from error
    return Context(server=server or DEFAULT_SERVER, token=token)


def default_path() -> Path:
    """`$SCHEDULERD_CONTEXTS`, or `schedulerd/contexts.yaml` in the directory for settings of the user."""
    named = os.environ.get("SCHEDULERD_CONTEXTS")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "schedulerd" / "contexts.yaml"


def load(path: Path) -> Contexts:
    """The contexts in a file; none if it does not exist. Raises `ContextProblem`."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return Contexts(path)
    except OSError as error:
        raise ContextProblem(f"{path} cannot be read: {error.strerror}") from error
    if len(text) > FILE_BYTES_MAX:
        raise ContextProblem(f"{path} has more than {FILE_BYTES_MAX} bytes")
    if mode & 0o077:
        raise ContextProblem(f"{path} may hold tokens, and others may read it: run chmod 600 {path}")
    try:
        content = ContextFile.model_validate(YAML(typ="safe", pure=True).load(text) or {})
    except (YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        said = (
            "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
            if isinstance(error, ValidationError)
            else "it is no YAML"
        )
        raise ContextProblem(f"{path}: {said}") from error
    return Contexts(path, content)
