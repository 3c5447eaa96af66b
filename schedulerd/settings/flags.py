"""One flag of the command line per setting, made from the model: each setting is defined once."""

from __future__ import annotations

from pathlib import Path

import click
from pydantic import BaseModel

MIB = 1024 * 1024


def setting_options(model: type[BaseModel], example: str) -> list[click.Parameter]:
    """`--settings FILE`, and a flag per setting, whose value is None if it is not given: then other layers count.

    `example` is a setting that the help of `--settings` names.
    """
    options: list[click.Parameter] = [
        click.Option(
            ["--settings"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            help=f"Settings file (YAML): a mapping of setting names, like {example}, to values.",
        )
    ]
    for name, field in model.model_fields.items():
        flag = f"--{name.replace('_', '-')}"
        help_text = f"{field.description}{_default_text(field.default)}"
        if field.annotation is bool:
            options.append(click.Option([f"{flag}/--no-{flag[2:]}"], default=None, help=help_text))
        else:
            options.append(click.Option([flag], default=None, metavar="VALUE", help=help_text))
    return options


def _default_text(default: object) -> str:
    """The default of a setting as a user would write it; '' if it is empty."""
    if default in (None, "", {}, ()):
        return ""
    match default:
        case bool():
            text = "on" if default else "off"
        case tuple():
            text = ",".join(map(str, default))
        case int() if default >= MIB and default % MIB == 0:
            text = f"{default}, which is {default // MIB} MiB"
        case _:
            text = str(default)
    return f" [default: {text}]"
