"""The Dockerfile does what it says: its own steps, performed in fresh virtual environments, give a working daemon.

The build fetches the pinned packages from the package registry that pip is set up for; nothing else leaves the machine.
"""

from __future__ import annotations

import http.server
import json
import re
import shlex
import signal
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import schedulerd
from schedulerd.config import matches
from schedulerd.ids import uuid_source
from tests.kubernetes.node import sandbox
from tests.packaging.dockerfile import Build, Stage, copy_build_context, parse
from tests.sim import history_file
from tests.sim.clusters import TIMEOUTS
from tests.sim.observations import Observations
from tests.sim.simulation import WORLDS, Failure, simulate
from tests.unit.replay.recorded import a_header, write_journal

REPOSITORY = Path(__file__).resolve().parents[2]
STAGES = parse((REPOSITORY / "Dockerfile").read_text())
IMAGE: Stage = STAGES[-1]
COMPILED_MODULES: list[str] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
    "targets"
]["wheel"]["hooks"]["mypyc"]["include"]
MOVES = 300
"""Of each simulated world that the compiled core plays again."""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("container")
    copy_build_context(REPOSITORY, folder / "context")
    build = Build(folder / "context", folder)
    build.perform(STAGES)
    return build


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*")}


def announced_http_port(daemon: subprocess.Popen[str]) -> int:
    """The port in the JSON log line that says it is serving. Fails with the log when it ends without."""
    assert daemon.stdout is not None
    log = []
    for line in daemon.stdout:
        log.append(line)
        if line.startswith("{") and "http_port" in (entry := json.loads(line)):
            return int(entry["http_port"])
    pytest.fail("".join(log))


@pytest.mark.timeout(600)
class TestBuiltImage:
    """One build for all; pip may have to fetch the packages, and the compiler needs a while, hence the long limit."""

    def test_its_command_knows_its_version_and_its_core_is_compiled(self, build: Build) -> None:
        done = build.run([*IMAGE.last("ENTRYPOINT").words(), "--version"])
        assert done.returncode == 0, done.stdout
        assert f"{schedulerd.__version__} (compiled core)" in done.stdout

    def test_its_core_decides_as_the_interpreted_one(self, build: Build, tmp_path: Path) -> None:
        for seed in range(len(WORLDS)):
            journal = a_journal(tmp_path / str(seed), seed)
            replayed = build.run([*IMAGE.last("ENTRYPOINT").words(), "replay", str(journal), "--check"])
            assert replayed.returncode == 0, replayed.stdout

    def test_the_queue_file_it_starts_with_is_valid_and_nothing_is_written(self, build: Build) -> None:
        queue_file = build.inside(IMAGE.last("CMD").words()[-1])
        before = contents(build.root)
        done = build.run([*IMAGE.last("ENTRYPOINT").words(), "validate", queue_file])
        assert done.returncode == 0, done.stdout
        assert contents(build.root) == before

    def test_it_serves_becomes_healthy_stops_on_sigterm_and_writes_nothing(self, build: Build) -> None:
        command = [*IMAGE.last("ENTRYPOINT").words(), *map(build.inside, IMAGE.last("CMD").words())]
        any_port = {"SCHEDULERD_GRPC_BIND": "127.0.0.1:0", "SCHEDULERD_HTTP_BIND": "127.0.0.1:0"}
        before = contents(build.root)
        with build.start(command, **any_port) as daemon:
            try:
                assert health_check(announced_http_port(daemon)) == 0
                daemon.send_signal(signal.SIGTERM)
                assert daemon.wait(timeout=30) == 0
            finally:
                daemon.kill()
        assert contents(build.root) == before

    def test_it_serves_as_an_unprivileged_user_with_a_read_only_root(self, build: Build) -> None:
        if not sandbox.is_allowed():
            pytest.skip("this machine does not let its users make namespaces")
        user, _, group = IMAGE.last("USER").text.partition(":")
        serve = [*IMAGE.last("ENTRYPOINT").words(), *map(build.inside, IMAGE.last("CMD").words())]
        writable = build.inside("/opt")
        script = f"""
            for at in $(cut -d' ' -f5 /proc/self/mountinfo | grep -Ev '^/(proc|sys|dev)'); do
                mount -o remount,bind,ro $at 2>&- || true
            done
            exec unshare --user --map-user={user} --map-group={group} setpriv --no-new-privs sh -ec '
                test "$(id -u):$(id -g)" = {user}:{group}
                ! touch {writable}/file 2>&-
                exec {shlex.join(serve)}'
        """
        command = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private", "sh", "-ec", script]
        any_port = {"SCHEDULERD_GRPC_BIND": "127.0.0.1:0", "SCHEDULERD_HTTP_BIND": "127.0.0.1:0"}
        with build.start(command, **any_port) as daemon:
            try:
                assert health_check(announced_http_port(daemon)) == 0
                daemon.send_signal(signal.SIGTERM)
                assert daemon.wait(timeout=30) == 0
            finally:
                daemon.kill()

    def test_it_runs_the_installed_package_with_its_own_queue_file(self, build: Build) -> None:
        program = (
            "import schedulerd.config.default_file as d; print(d.__file__); print(d.default_queue_file_text(), end='')"
        )
        done = build.run(["python", "-c", program])
        assert done.returncode == 0, done.stdout
        path, _, text = done.stdout.partition("\n")
        assert Path(path).is_relative_to(build.root / "opt")
        assert text == (REPOSITORY / "config" / "queues.yaml").read_text()

    def test_its_packages_are_complete_and_agree(self, build: Build) -> None:
        done = build.run(["python", "-m", "pip", "check"])
        assert done.returncode == 0, done.stdout

    def test_the_wheel_holds_the_package_the_generated_code_and_the_queue_file(self, build: Build) -> None:
        (wheel,) = build.set_aside(STAGES[0].name).glob("dist/*.whl")
        sources = {
            path.relative_to(REPOSITORY).as_posix()
            for path in (REPOSITORY / "schedulerd").rglob("*.py*")
            if path.suffix in (".py", ".pyi")
        }
        assert "schedulerd/_generated/si/v1/si_pb2_grpc.py" in sources
        with zipfile.ZipFile(wheel) as archive:
            packed = {name for name in archive.namelist() if ".dist-info/" not in name}
            machine_code = {name for name in packed if name.endswith(".so")}
            data = {"config/default_queues.yaml", "daemon/admin/api/openapi.json", "py.typed"}
            page = REPOSITORY / "schedulerd" / "daemon" / "admin" / "ui"
            of_page = [*page.glob("templates/*"), *page.glob("static/*")]
            data |= {path.relative_to(REPOSITORY / "schedulerd").as_posix() for path in of_page}
            assert packed - machine_code == sources | {f"schedulerd/{name}" for name in data}
            queue_file = archive.read("schedulerd/config/default_queues.yaml")
        assert {name.partition(".")[0] for name in machine_code if name.startswith("schedulerd/")} == {
            path.lstrip("/").removesuffix(".py") for path in COMPILED_MODULES
        }
        assert queue_file == (REPOSITORY / "config" / "queues.yaml").read_bytes()


def a_journal(folder: Path, seed: int) -> Path:
    """Written by the core as it is here, of a simulated history that names the UUIDs which a replay will make."""
    history, failure = simulate(seed, MOVES, Observations())
    assert failure is None
    folder.mkdir()
    header, file = replace(a_header(), timeouts=TIMEOUTS), folder / "history.json"
    history_file.write(file, Failure(0, [], history))
    made = uuid_source(header.uuid_seed)
    uuids = [made() for _ in range(len(history) * 100)]
    file.write_text(re.sub(r'"uuid-(\d+)"', lambda match: f'"{uuids[int(match[1]) - 1]}"', file.read_text()))
    return write_journal(folder, history_file.read(file)[0], header, header.scheduler(matches))


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_it_can_be_built_with_an_interpreted_core(tmp_path: Path) -> None:
    copy_build_context(REPOSITORY, tmp_path / "context")
    build = Build(tmp_path / "context", tmp_path, arguments={"COMPILED": "0"})
    build.perform(STAGES)
    done = build.run([*IMAGE.last("ENTRYPOINT").words(), "--version"])
    assert done.stdout.strip().endswith(schedulerd.__version__)
    (wheel,) = build.set_aside(STAGES[0].name).glob("dist/*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")


def test_the_labels_say_what_the_image_is_made_of(tmp_path: Path) -> None:
    build = Build(tmp_path, tmp_path, {"REVISION": "abc", "SOURCE": "https://example.org/x"})
    for instruction in IMAGE.instructions:
        if instruction.keyword in ("ARG", "LABEL"):
            build.perform_one(instruction)
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in build.labels.items()}
    assert labels.pop("description")
    assert labels == {
        "title": "schedulerd",
        "licenses": "Apache-2.0",
        "version": schedulerd.__version__,
        "revision": "abc",
        "source": "https://example.org/x",
    }


def test_the_user_is_not_root() -> None:
    user, _, group = IMAGE.last("USER").text.partition(":")
    assert int(user) > 0
    assert int(group) > 0


def test_all_stages_share_the_python_that_the_environment_links_to() -> None:
    assert len({stage.image.removesuffix("-slim") for stage in STAGES}) == 1


def test_whatever_pip_fetches_is_pinned_by_hash() -> None:
    commands = [
        command
        for stage in STAGES
        for instruction in stage.instructions
        if instruction.keyword == "RUN"
        for command in re.split(r"&&|;|\|", instruction.text)
        if re.search(r"\bpip (install|wheel|download)\b", command)
    ]
    assert commands
    for command in commands:
        assert re.search(r"--require-hashes|--no-index|--no-deps --no-build-isolation", command), command


@contextmanager
def http_endpoint(status: int, paths: list[str]) -> Iterator[int]:
    """Answers every GET with `status`, notes its path in `paths`; yields the port on 127.0.0.1."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Keeps the test's output clean."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join(timeout=10)


def health_check(port: int) -> int:
    """Exit code of the image's HEALTHCHECK, with this interpreter and `port` for the image's own."""
    _, _, command = IMAGE.last("HEALTHCHECK").text.partition("CMD ")
    executable, *arguments = [
        word.replace("9080", str(port)) for word in parse(f"FROM x\nCMD {command}")[0].last("CMD").words()
    ]
    assert executable == "python"
    return subprocess.run([sys.executable, *arguments], capture_output=True, timeout=30, check=False).returncode


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (404, False)])
def test_the_health_check_follows_livez(status: int, healthy: bool) -> None:
    paths: list[str] = []
    with http_endpoint(status, paths) as port:
        assert (health_check(port) == 0) is healthy
    assert paths == ["/livez"]


def test_the_health_check_fails_when_no_daemon_listens() -> None:
    with http_endpoint(200, []) as port:
        pass
    assert health_check(port) != 0
