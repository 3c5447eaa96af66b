"""`schedulerd admission` as a command: its settings, its metrics, its end."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from schedulerd.config import load_settings
from schedulerd.kubernetes.admission.metrics import PREFIX, AdmissionMetrics
from schedulerd.kubernetes.admission.settings import ENVIRONMENT_PREFIX, AdmissionSettings
from schedulerd.settings.layers import SettingsInvalid, load_layers
from tests.kubernetes.contract.real_server import write_kubeconfig
from tests.loops import each_row

pytestmark = pytest.mark.timeout(60)
PAGE = Path(__file__).parents[3] / "docs" / "admission.md"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<kind>\w+) \| (?P<labels>[^|]*) \| (?P<meaning>[^|]+) \|$", re.MULTILINE)
STUCK = """
import asyncio, sys, time
import schedulerd.kubernetes.running as running
from schedulerd.kubernetes.admission.process import Admission
running.STOP_SECONDS = 0.2

async def serve(self):
    print("serving", flush=True)
    try:
        await asyncio.sleep(3600)
    finally:
        time.sleep(3600)

Admission.serve = serve
from schedulerd.cli import main
sys.argv = ["schedulerd", *sys.argv[1:]]
main()
"""


def settings(**flags: object) -> AdmissionSettings:
    return load_layers(AdmissionSettings, ENVIRONMENT_PREFIX, flags, {})


@contextlib.contextmanager
def command(
    tmp_path: Path, *flags: str, program: tuple[str, ...] = ("-m", "schedulerd")
) -> Iterator[subprocess.Popen[str]]:
    """With an API server that is not there; killed at the end."""
    config = tmp_path / "kubeconfig"
    write_kubeconfig(config, "http://127.0.0.1:1", "token", "schedulerd")
    given = ("admission", "--kubeconfig", str(config), "--http-bind", "127.0.0.1:0", "--bind", "127.0.0.1:0", *flags)
    with subprocess.Popen(
        [sys.executable, "-W", "error", *program, *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_it_waits_for_an_api_server_and_ends_by_a_signal(tmp_path: Path) -> None:
    with command(tmp_path, "--drain-timeout-s", "0.2") as process:
        assert process.stderr is not None
        started = json.loads(process.stderr.readline())
        assert started["event"].startswith("webhooks on port")
        assert started["namespace"] == "schedulerd"
        assert any("certificates are not checked" in line for line in process.stderr), "the first of these lines"
        process.send_signal(signal.SIGTERM)
        log = process.stderr.read()
        assert process.wait(30.0) == 0, log


@pytest.mark.slow
def test_an_end_that_does_not_come(tmp_path: Path) -> None:
    with command(tmp_path, "--drain-timeout-s", "0.2", program=("-c", STUCK)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30.0) == 71


@pytest.mark.slow
def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    with command(tmp_path) as process:
        assert process.stderr is not None
        port = json.loads(process.stderr.readline())["port"]
        with command(tmp_path, "--bind", f"127.0.0.1:{port}") as other:
            _, log = other.communicate(timeout=30.0)
            assert other.returncode == 69
            assert f"cannot listen on 127.0.0.1:{port}" in log


@pytest.mark.slow
def test_settings_that_cannot_be_used(tmp_path: Path) -> None:
    with command(tmp_path, "--trusted-users", "(") as process:
        _, error = process.communicate(timeout=30.0)
        assert process.returncode == 78
        assert "--trusted-users = '(': \"(\" is not a regular expression: missing )" in error


@each_row(
    ("flags", "words"),
    [
        ({"process_namespaces": "a,b["}, "is not a regular expression"),
        ({"process_namespaces": ",".join("a" * 300)}, "at most 200 items"),
        ({"trusted_groups": "x" * 1_001}, "at most 1000 characters"),
        ({"trusted_service_accounts": "kubeflow"}, "is not NAMESPACE/NAME"),
        ({"trusted_service_accounts": "kubeflow/*"}, "is not NAMESPACE/NAME"),
        ({"custom_resources": "ray.io/rayclusters"}, "must be GROUP/RESOURCE=PATH"),
        ({"scheduler_name": ","}, "at least 1 character"),
        ({"daemon": "localhost"}, "must be HOST:PORT"),
        ({"daemon_cert_file": str(PAGE)}, "must be given together"),
        ({"daemon_cert_file": str(PAGE), "daemon_key_file": str(PAGE)}, "needs daemon_ca_file too"),
        ({"tls_dir": "/nowhere"}, "must be an existing path to a directory"),
        ({"bind": "9443"}, "must be HOST:PORT"),
        ({"drain_timeout_s": "0"}, "greater than 0"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(flags: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        settings(**flags)
    assert words in str(caught.value)


def test_lists_have_commas_or_are_lists(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("trusted_users: ['a{1,2}', b]\nprocess_namespaces: [x]\n")
    loaded = load_layers(AdmissionSettings, ENVIRONMENT_PREFIX, {"process_namespaces": "y, z"}, {}, file)
    assert loaded.trusted_users == ("a{1,2}", "b")
    assert loaded.process_namespaces == ("y", "z")


def test_variables_are_no_misspelt_ones_of_the_daemon() -> None:
    load_settings({}, {"SCHEDULERD_ADMISSION_HTTP_BIND": "x", "SCHEDULERD_ADMISSION_LOG_LEVEL": "x"})


def test_metrics_are_those_of_the_page() -> None:
    text = AdmissionMetrics()
    text.reviews.labels("w", "o", "r")
    text.failures.labels("w", "c")
    text.seconds.labels("w")
    text.certificate_loads.labels("r")
    text.bundle_current.labels("c")
    exposed = {}
    for family in text_string_to_metric_families(generate_latest(text.registry).decode()):
        if family.name.startswith(PREFIX) and not family.name.endswith("_created"):
            name = family.name + ("_total" if family.type == "counter" else "")
            names = {label for sample in family.samples for label in sample.labels} - {"le"}
            exposed[name] = (family.type, names, family.documentation)
    rows = [row for row in ROW.finditer(PAGE.read_text()) if row["name"].startswith(PREFIX)]
    written = {
        row["name"]: (row["kind"], {one.strip("` ") for one in row["labels"].split(",")} - {""}, row["meaning"])
        for row in rows
    }
    assert written == exposed


def test_every_setting_on_the_page_is_one() -> None:
    known = {f"--{name.replace('_', '-')}" for name in AdmissionSettings.model_fields} | {"--settings", "--help"}
    used = set(re.findall(r"`(?:schedulerd admission )?(--[a-z-]+)", PAGE.read_text()))
    assert used <= known, used - known
    assert len(used) > 15
