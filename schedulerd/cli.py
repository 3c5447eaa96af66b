"""The command line: `serve` the daemon, `validate` a queue file, `simulate` a resource manager, run the `demo`, and
`replay` a journal.

The flags of `serve` are made from the settings model, so a setting exists once. Clients and `replay` are imported when
they are called: a daemon does not carry them, and need not have the terminal library they draw with.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import click

from schedulerd.address import Target
from schedulerd.build import description
from schedulerd.config import (
    Problem,
    QueueFileInvalid,
    Settings,
    SettingsInvalid,
    load_queue_file,
    load_settings,
)

USAGE = 1
UNREADABLE = 2
INVALID = 3
NOT_ASKED = 4
INTERRUPTED = 130

_LATE_COMMANDS = {
    "demo": ("schedulerd.simulate.cli", "Start a daemon and a simulated resource manager beside it."),
    "replay": ("schedulerd.replay.cli", "Play what a journal recorded: check it, explain it, ask what if."),
    "simulate": ("schedulerd.simulate.cli", "Play a resource manager against a running scheduler."),
}
"""The module of each, and its help where that module cannot be imported."""


class _Commands(click.Group):
    """A group that imports some commands only when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_LATE_COMMANDS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _LATE_COMMANDS:
            return super().get_command(ctx, cmd_name)
        try:
            command = getattr(importlib.import_module(_LATE_COMMANDS[cmd_name][0]), cmd_name)
        except ModuleNotFoundError as error:
            return _not_installed(cmd_name, error.name or "")
        assert isinstance(command, click.Command)
        return command


def _not_installed(name: str, module: str) -> click.Command:
    def say_so() -> None:
        raise click.ClickException(f"{name} needs the module {module}: pip install 'schedulerd[simulate]'")

    return click.Command(name, callback=say_so, help=_LATE_COMMANDS[name][1])


@click.group(cls=_Commands)
@click.version_option(description(), message="schedulerd %(version)s")
def cli() -> None:
    """A batch scheduler that speaks the YuniKorn scheduler interface over gRPC."""


def _setting_options() -> list[click.Parameter]:
    """One flag per setting; None means not given, so that the environment and the file are asked."""
    options: list[click.Parameter] = [
        click.Option(["--settings"], type=click.Path(path_type=Path), help="Settings file (YAML).")
    ]
    for name, field in Settings.model_fields.items():
        flag = f"--{name.replace('_', '-')}"
        default = "" if field.default is None else f" [default: {field.default}]"
        help_text = f"{field.description}{default}"
        if field.annotation is bool:
            options.append(click.Option([f"{flag}/--no-{flag[2:]}"], default=None, help=help_text))
        else:
            options.append(click.Option([flag], default=None, metavar="VALUE", help=help_text))
    return options


def _serve(settings: Path | None, **flags: object) -> None:
    # Imported here, because validating a file needs neither gRPC nor the scheduler.
    from schedulerd.daemon.failures import ExitCode
    from schedulerd.daemon.server import serve

    try:
        loaded = load_settings(flags, os.environ, settings)
    except SettingsInvalid as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(ExitCode.CONFIG)
    sys.exit(serve(loaded))


cli.add_command(
    click.Command(
        "serve",
        callback=_serve,
        params=_setting_options(),
        help="""Run the daemon until SIGTERM or SIGINT, which it answers by draining; a second signal ends it at once.

        A flag wins over the environment variable SCHEDULERD_NAME, and that over the settings file. Exit codes: 0
        drained, 69 a port is taken, 70 a bug of schedulerd, 71 the shutdown was not over in time, 78 settings, queue
        file or TLS files cannot be used.""",
    )
)


_FILE = click.Path(path_type=Path, exists=True, dir_okay=False, readable=True)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--against", type=Target(), help="gRPC address of a running daemon to ask.")
@click.option("--rm", "rm_id", default="", metavar="RMID", help="Its resource manager; needed if there are several.")
@click.option("--tls-ca-file", type=_FILE, help="Authorities (PEM) of the daemon's certificate; turns TLS on.")
@click.option("--tls-cert-file", type=_FILE, help="Own certificate chain (PEM), for mutual TLS.")
@click.option("--tls-key-file", type=_FILE, help="Private key (PEM) of that certificate.")
def validate(
    file: Path,
    against: str | None,
    rm_id: str,
    tls_ca_file: Path | None,
    tls_cert_file: Path | None,
    tls_key_file: Path | None,
) -> None:
    """Check a queue FILE and list all that is wrong with it, with line, key and what is allowed.

    With --against the daemon is asked what the file would change for what runs there; nothing is changed.

    Exit codes: 0 valid (warnings are printed), 1 wrong usage, 2 the file cannot be read, 3 it is not valid or the
    daemon would refuse it, 4 the daemon cannot be asked.
    """
    _check_client_options(against, rm_id, tls_ca_file, tls_cert_file, tls_key_file)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        click.echo(f"{file}: cannot be read: {error}", err=True)
        sys.exit(UNREADABLE)
    try:
        queue_file = load_queue_file(text, str(file))
    except QueueFileInvalid as error:
        click.echo(str(error), err=True)
        sys.exit(INVALID)
    for warning in queue_file.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{file}: valid")
    if against is not None:
        sys.exit(_validate_against(text, against, rm_id, tls_ca_file, tls_cert_file, tls_key_file))


def _check_client_options(
    against: str | None, rm_id: str, ca_file: Path | None, cert_file: Path | None, key_file: Path | None
) -> None:
    if against is None and (rm_id or ca_file or cert_file or key_file):
        raise click.UsageError("--rm and the TLS files are about a running daemon: say which with --against HOST:PORT")
    if (cert_file is None) != (key_file is None):
        raise click.UsageError("--tls-cert-file and --tls-key-file must be given together")
    if cert_file is not None and ca_file is None:
        raise click.UsageError("--tls-cert-file needs --tls-ca-file too")


def _validate_against(
    text: str, target: str, rm_id: str, ca_file: Path | None, cert_file: Path | None, key_file: Path | None
) -> int:
    """Prints what the daemon says; returns the exit status."""
    # Imported here, because validating a file alone needs no gRPC.
    from schedulerd.admin_client import AdminClient, DaemonUnusable, ResourceManagerNotChosen, tls_credentials

    credentials = None if ca_file is None else tls_credentials(ca_file, cert_file, key_file)
    try:
        with AdminClient(target, credentials) as client:
            rm_id, answer = client.validate(text, rm_id)
    except DaemonUnusable as error:
        click.echo(str(error), err=True)
        return NOT_ASKED
    except ResourceManagerNotChosen as error:
        raise click.UsageError(f"{error}; choose one with --rm") from error
    if not answer.allowed:
        # The reason lists problems too, but not all of a long list.
        reason = answer.reason.splitlines()[0] if answer.problems else answer.reason
        click.echo(f"refused by {target}: {reason}", err=True)
        for one in answer.problems:
            click.echo(f"  {Problem(one.path, one.line or None, one.value or None, one.message)}", err=True)
        return INVALID
    if not rm_id:
        click.echo(f"no resource manager is registered at {target}: nothing runs there that could change")
        return 0
    click.echo(f"impact on {rm_id!r} at {target}:" + ("" if answer.impact else " none"))
    for difference in answer.impact:
        click.echo(f"  {'warning: ' if difference.harms else ''}{difference.message}")
    return 0


def main() -> None:
    """Runs the command line; wrong usage exits with 1, because 2 and more have a meaning of their own."""
    try:
        sys.exit(cli.main(standalone_mode=False))
    except click.UsageError as error:
        error.show()
        sys.exit(USAGE)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(INTERRUPTED)
