"""The command line: `serve` the daemon, `validate` a queue file, connect it with `kubernetes`, `simulate` a resource
manager, run the `demo`, `replay` a journal, and look at a running daemon with `explain`, `get`, `top` and `queue`.
`kubectl-schedulerd` has the commands of the last group, for `kubectl schedulerd`.

The flags of `serve` are made from the settings model, so each setting is defined once. All other commands but
`validate` are imported when they are called: the daemon needs neither them nor the libraries that they use.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import NamedTuple

import click
from click.shell_completion import get_completion_class

from schedulerd.address import Target
from schedulerd.build import description, installed_from
from schedulerd.config import (
    Problem,
    QueueFileInvalid,
    Settings,
    SettingsInvalid,
    load_queue_file,
    load_settings,
)
from schedulerd.config.peer_settings import PeerMap, peer_maps, what_becomes
from schedulerd.settings.flags import setting_options

USAGE = 1
UNREADABLE = 2
INVALID = 3
NOT_ASKED = 4
STANDARD_INPUT = "-"
INTERRUPTED = 130


class _Late(NamedTuple):
    """A command that is imported when it is first used."""

    module: str
    help: str
    """Is shown if the module cannot be imported."""
    extra: str = ""
    """The extra that brings the libraries of its own; '' if it has none."""


_LATE_COMMANDS = {
    "admission": _Late("schedulerd.admission", "Serve the admission webhooks of a Kubernetes cluster.", "kubernetes"),
    "context": _Late("schedulerd.terminal.context_commands", "Which daemon explain and get talk to."),
    "explain": _Late("schedulerd.terminal.cli", "Why does a pod, ask, application or queue wait?"),
    "get": _Late("schedulerd.terminal.get", "List queues, apps, asks, nodes or events."),
    "demo": _Late("schedulerd.simulate.cli", "Run a daemon with a simulated cluster."),
    "kubernetes": _Late("schedulerd.kubernetes.shim.cli", "Schedule the pods of a Kubernetes cluster.", "kubernetes"),
    "kubernetes-replay": _Late(
        "schedulerd.kubernetes.journal.cli", "Replay a journal of schedulerd kubernetes.", "kubernetes"
    ),
    "queue": _Late("schedulerd.terminal.queue", "Show, stop or start a queue."),
    "replay": _Late("schedulerd.replay.cli", "Replay a journal: check it, explain it, ask what if."),
    "top": _Late("schedulerd.terminal.top", "Watch queues, what waits, gangs and nodes."),
    "simulate": _Late("schedulerd.simulate.cli", "Simulate a resource manager: load for a running daemon."),
}


_OF_KUBECTL = frozenset({"context", "explain", "get", "queue", "top"})
"""Commands of `kubectl schedulerd`."""


class _Commands(click.Group):
    """A group of commands, some of which are imported when they are first used."""

    late_commands = frozenset(_LATE_COMMANDS)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.late_commands])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.late_commands:
            return super().get_command(ctx, cmd_name)
        try:
            command = getattr(importlib.import_module(_LATE_COMMANDS[cmd_name].module), cmd_name.replace("-", "_"))
        except ModuleNotFoundError as error:
            return _not_installed(cmd_name, error.name or "")
        assert isinstance(command, click.Command)
        return command


def _not_installed(name: str, module: str) -> click.Command:
    late = _LATE_COMMANDS[name]

    def say_so() -> None:
        raise click.ClickException(f"{name} needs the module {module}, {_which_brings(late.extra)}")

    # Whatever else was written: what is missing is to be said first.
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, callback=say_so, help=late.help, context_settings=anything)


def _which_brings(extra: str) -> str:
    """How to get a missing module: from where this was installed, as an index may have another package of that name."""
    if not extra:
        return "which belongs to schedulerd: install it again, from where it came"
    source = installed_from()
    wanted = f"schedulerd[{extra}] @ {source}" if source else f"/PATH/TO/SCHEDULERD[{extra}]"
    return f"which the extra {extra} brings: pip install '{wanted}'"


@click.group(cls=_Commands)
@click.version_option(description(), message="schedulerd %(version)s")
def cli() -> None:
    """A batch scheduler with the Apache YuniKorn scheduler interface over gRPC.

    Start with `schedulerd demo`, which needs nothing else, or with the page docs/first-day.md.
    """


class _KubectlCommands(_Commands):
    late_commands = _OF_KUBECTL


@click.group(cls=_KubectlCommands)
@click.version_option(description(), message="schedulerd %(version)s")
def kubectl() -> None:
    """Look at schedulerd: why does a pod wait, which queue has what.

    kubectl runs this for `kubectl schedulerd`, if kubectl-schedulerd is on the PATH. It talks to the HTTP port of the
    daemon (--server, or a context of `kubectl schedulerd context`), and not to the API server.
    """


def _serve(settings: Path | None, **flags: object) -> None:
    # Imported here, because validating a file needs neither gRPC nor the scheduler.
    from schedulerd.daemon.runtime.failures import ExitCode
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
        params=setting_options(Settings, "grpc_bind"),
        help="""Run the daemon.

        It runs until SIGTERM or SIGINT, and then shuts down in order: it closes its streams, and pods keep running.
        A second signal ends it at once.

        Each setting is a flag, an environment variable (--grpc-bind is SCHEDULERD_GRPC_BIND), or a line of the
        settings file (grpc_bind). A flag has precedence over the environment, and the environment over the file.

        Exit codes: 0 shut down after a signal, 69 a port is in use, 70 a bug of schedulerd, 71 the shutdown did not
        end in time, 78 the settings or a file that they name cannot be used, 128 + N ended by a second signal N.""",
    )
)


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion of commands for a shell.

    \b
    bash  source <(schedulerd completion bash)         in ~/.bashrc
    zsh   source <(schedulerd completion zsh)          in ~/.zshrc
    fish  schedulerd completion fish | source          in ~/.config/fish/config.fish
    """
    completes = get_completion_class(shell)
    assert completes is not None
    click.echo(completes(cli, {}, "schedulerd", "_SCHEDULERD_COMPLETE").source())


_FILE = click.Path(path_type=Path, exists=True, dir_okay=False, readable=True)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--against", type=Target(), help="Also show what FILE would change in this daemon (gRPC address).")
@click.option(
    "--rm",
    "rm_id",
    default="",
    metavar="RMID",
    help="With --against: the resource manager whose queues would change. Required if several are registered.",
)
@click.option(
    "--tls-ca-file",
    type=_FILE,
    help="With --against: certificate authorities (PEM) of the daemon's certificate. Turns TLS on.",
)
@click.option(
    "--tls-cert-file", type=_FILE, help="With --against: certificate chain (PEM) of this client, for mutual TLS."
)
@click.option("--tls-key-file", type=_FILE, help="Private key (PEM) of the certificate in --tls-cert-file.")
def validate(
    file: Path,
    against: str | None,
    rm_id: str,
    tls_ca_file: Path | None,
    tls_cert_file: Path | None,
    tls_key_file: Path | None,
) -> None:
    """Check a queue file.

    Lists all problems of FILE (- is standard input), each with its line, key and value, and what is allowed there. With
    --against, a running daemon also says what the file would change for its queues and running work; nothing changes.
    A manifest of YuniKorn's ConfigMaps (yunikorn-configs, yunikorn-defaults) is read too: its queue files are checked,
    and for every other key is printed what has its place here.

    Exit codes: 0 valid (warnings are printed), 1 wrong usage, 2 FILE cannot be read, 3 FILE is not valid or the daemon
    would refuse it, 4 the daemon does not answer.
    """
    _check_client_options(against, rm_id, tls_ca_file, tls_cert_file, tls_key_file)
    name = "standard input" if str(file) == STANDARD_INPUT else str(file)
    try:
        raw = sys.stdin.buffer.read() if str(file) == STANDARD_INPUT else file.read_bytes()
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        click.echo(f"{name}: cannot be read: {error}", err=True)
        sys.exit(UNREADABLE)
    maps = peer_maps(text)
    if maps is not None:
        if against is not None:
            raise click.UsageError("--against is for a queue file, and this is a manifest of ConfigMaps")
        sys.exit(_validate_maps(maps, name))
    if not _is_valid(text, name):
        sys.exit(INVALID)
    if against is not None:
        sys.exit(_validate_against(text, against, rm_id, tls_ca_file, tls_cert_file, tls_key_file))


def _is_valid(text: str, name: str) -> bool:
    """Prints the problems of a queue file, or its warnings."""
    try:
        queue_file = load_queue_file(text, name)
    except QueueFileInvalid as error:
        click.echo(str(error), err=True)
        return False
    for warning in queue_file.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{name}: valid")
    return True


def _validate_maps(maps: list[PeerMap], name: str) -> int:
    """Prints what becomes of each key of ConfigMaps of YuniKorn, and checks the queue files in them; returns the exit
    code."""
    is_valid = True
    for one in maps:
        for key, text in one.queue_files.items():
            is_valid &= _is_valid(text, f"{name}: {one.name} {key}")
        for key, here in what_becomes(one.settings):
            click.echo(f"{one.name} {key}: {here}")
    return 0 if is_valid else INVALID


def _check_client_options(
    against: str | None, rm_id: str, ca_file: Path | None, cert_file: Path | None, key_file: Path | None
) -> None:
    if against is None and (rm_id or ca_file or cert_file or key_file):
        raise click.UsageError("--rm and the TLS files need a running daemon: name it with --against HOST:PORT")
    if (cert_file is None) != (key_file is None):
        raise click.UsageError("--tls-cert-file and --tls-key-file must be given together")
    if cert_file is not None and ca_file is None:
        raise click.UsageError("--tls-cert-file needs --tls-ca-file too")


def _validate_against(
    text: str, target: str, rm_id: str, ca_file: Path | None, cert_file: Path | None, key_file: Path | None
) -> int:
    """Prints what the file would change in the daemon; returns the exit code."""
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
        # The reason lists problems too, but not all of them if there are many.
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


def kubectl_main() -> None:
    """Runs the command line of `kubectl schedulerd`."""
    main(kubectl, "kubectl schedulerd")


def main(group: click.Group = cli, name: str | None = None) -> None:
    """Runs the command line. Wrong usage exits with 1, because codes from 2 on mean something else in each command."""
    try:
        sys.exit(group.main(prog_name=name, standalone_mode=False))
    except click.UsageError as error:
        error.show()
        sys.exit(USAGE)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(INTERRUPTED)
