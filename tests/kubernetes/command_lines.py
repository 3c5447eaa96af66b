"""Reads the command lines of containers as schedulerd does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from schedulerd.address import split_address
from schedulerd.cli import cli
from schedulerd.config.settings import Settings
from schedulerd.kubernetes.admission.settings import ENVIRONMENT_PREFIX as ADMISSION_PREFIX
from schedulerd.kubernetes.admission.settings import AdmissionSettings
from schedulerd.kubernetes.shim.settings import ENVIRONMENT_PREFIX, KubernetesSettings
from schedulerd.settings.layers import load_layers

MODELS: dict[str, tuple[type[BaseModel], str]] = {
    "serve": (Settings, "SCHEDULERD_"),
    "kubernetes": (KubernetesSettings, ENVIRONMENT_PREFIX),
    "admission": (AdmissionSettings, ADMISSION_PREFIX),
}
TLS_FILES = ("tls.crt", "tls.key", "ca.crt")


def settings_of(container: dict[str, Any], folder: Path) -> BaseModel:
    """Its settings, by flags and variables. `folder` stands for /etc/schedulerd. Fails on what is not understood."""
    if any(one["name"] == "tls" for one in container.get("volumeMounts") or ()):
        tls = folder.with_name(f"{folder.name}-tls")  # beside it, as in the container
        tls.mkdir(exist_ok=True)
        for file in TLS_FILES:
            (tls / file).touch()
    for volume in container.get("volumeMounts") or ():
        if volume["name"] == "http-tokens":
            tokens = folder.with_name(f"{folder.name}-tokens")
            tokens.mkdir(exist_ok=True)
            (tokens / "t").touch()
    name, *flags = (one.replace("/etc/schedulerd", str(folder)) for one in container["args"])
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    given = command.make_context(name, list(flags)).params
    model, prefix = MODELS[name]
    environment = {one["name"]: one.get("value", "from-a-field") for one in container.get("env") or ()}
    return load_layers(model, prefix, given, environment, given.pop("settings"))


def http_port(container: dict[str, Any], folder: Path) -> int:
    settings = settings_of(container, folder)
    return split_address(getattr(settings, "http_bind"))[1]  # noqa: B009 - both models have it
