"""The command `schedulerd admission`: the webhooks, together with the daemon's reader of queue files."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import click

from schedulerd.config import QueueFileInvalid
from schedulerd.daemon.files.queue_files import TextReader
from schedulerd.daemon.runtime.workers import Busy
from schedulerd.kubernetes.admission.process import Admission, PortUnusable
from schedulerd.kubernetes.admission.rules.queues import QueueFileResult
from schedulerd.kubernetes.admission.settings import ENVIRONMENT_PREFIX, AdmissionSettings
from schedulerd.kubernetes.api import Transport
from schedulerd.kubernetes.auth import AccessUnusable, load_access
from schedulerd.kubernetes.running import EXIT_CONFIG, EXIT_UNAVAILABLE, read_settings, run_and_exit, until_signal
from schedulerd.kubernetes.shim.log import configure
from schedulerd.settings.flags import setting_options

LOG = logging.getLogger(__name__)

TEXTS_WAITING_MAX = 4
"""Queue files that wait to be read while another one is."""


class QueueFileReader:
    """Validates queue files as the daemon does, in a process of their own. One that takes too long is killed."""

    def __init__(self) -> None:
        self._texts = _texts()

    async def __call__(self, text: str, key: str) -> QueueFileResult:
        texts = self._texts
        try:
            queue_file = await texts.load(text, key)
        except QueueFileInvalid as error:
            if self._texts is not texts:  # it was killed with another text that took too long
                return await self(text, key)
            return QueueFileResult(key, tuple(map(str, error.problems)))
        except Busy as error:
            return QueueFileResult(key, warnings=(f"not validated: {error}",))
        except asyncio.CancelledError:
            if self._texts is texts:
                self._texts = _texts()
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, texts.close))
            raise
        return QueueFileResult(key, warnings=tuple(map(str, queue_file.warnings)))

    def close(self) -> None:
        self._texts.close()


def _texts() -> TextReader:
    return TextReader("validating queue files", waiting_max=TEXTS_WAITING_MAX, niceness=5)


async def run(settings: AdmissionSettings) -> int:
    """Serves until a signal comes; the exit code."""
    reader = QueueFileReader()
    try:
        return await until_signal(lambda: _run(settings, reader), settings.drain_timeout_s)
    finally:
        reader.close()


async def _run(settings: AdmissionSettings, reader: QueueFileReader) -> int:
    try:
        transport = Transport(load_access(settings.kubeconfig, settings.context))
    except AccessUnusable as error:
        LOG.error("no access to an API server: %s", error)
        return EXIT_CONFIG
    try:
        await Admission(transport, settings, reader).serve()
    except PortUnusable as error:
        LOG.error("%s", error)
        return EXIT_UNAVAILABLE
    finally:
        await transport.close()
    return 0


def _admission(settings: Path | None, **flags: object) -> None:
    loaded = read_settings(AdmissionSettings, ENVIRONMENT_PREFIX, flags, settings)
    configure(loaded.log_level, loaded.log_format)
    run_and_exit(run(loaded))


admission = click.Command(
    "admission",
    callback=_admission,
    params=setting_options(AdmissionSettings, "bind"),
    help="""Serve the admission webhooks of a Kubernetes cluster.

    Pods get the scheduler's name, an application id and the user who made them; nobody can pretend to be another
    user; and queue files in a ConfigMap are validated before they are stored (docs/admission.md). Several replicas
    may run.

    Each setting is a flag, an environment variable (--bind is SCHEDULERD_ADMISSION_BIND), or a line of the settings
    file (bind). A flag has precedence over the environment, and the environment over the file.

    Exit codes: 0 ended by a signal, 69 a port cannot be used, 70 a bug of schedulerd, 71 the end took too long, 78
    settings, kubeconfig or service account cannot be used, 128 + N ended by a second signal N.""",
)
