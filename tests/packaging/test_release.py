"""What `make dist` makes: the same bytes each time, of what is committed, with one version and a complete SBOM."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import schedulerd
from tests.kubernetes.chart.helm import CHART, needs_helm, run
from tests.packaging.dockerfile import copy_build_context
from tests.packaging.test_locks import pins

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS_MAX = 300.0
TAG = f"v{schedulerd.__version__}"


def git(checkout: Path, *arguments: str) -> None:
    fixed = {f"GIT_{who}_{what}": f"{what}@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-02T03:04:05Z")
    environment = {**os.environ, **fixed, **dates, "GIT_CONFIG_GLOBAL": "/dev/null"}
    subprocess.run(["git", "-C", str(checkout), *arguments], check=True, capture_output=True, env=environment)


def a_checkout(folder: Path) -> Path:
    """A repository of its own with the sources of this one."""
    copy_build_context(REPOSITORY, folder)
    for name in ("release", "charts"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "Dockerfile", folder)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "All")
    git(folder, "tag", TAG)
    return folder


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_checkout(tmp_path_factory.mktemp("checkout") / "one")


def dist(checkout: Path, output: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REPOSITORY / "release" / "dist.py"), "--repository", str(checkout)]
    return subprocess.run(
        [*command, "--output", str(output), *arguments], capture_output=True, text=True, timeout=SECONDS_MAX
    )


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def made(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("dist")
    done = dist(checkout, output, "--pure-only")
    assert done.returncode == 0, done.stderr
    return output


def test_it_makes_a_wheel_an_sbom_and_sums(made: Path) -> None:
    version = schedulerd.__version__
    files = contents(made)
    names = (f"schedulerd-{version}-py3-none-any.whl", f"schedulerd-{version}.tgz", f"schedulerd-{version}.cdx.json")
    assert files.keys() == {*names, "SHA256SUMS"}
    lines = [line.split() for line in (made / "SHA256SUMS").read_text().splitlines()]
    assert {name: digest for digest, name in lines} == {
        name: digest for name, digest in files.items() if name != "SHA256SUMS"
    }


@needs_helm
def test_helm_takes_the_chart(made: Path) -> None:
    (file,) = made.glob("*.tgz")
    assert run("show", "chart", str(file)) == run("show", "chart", str(CHART))
    assert run("template", "x", str(file)) == run("template", "x", str(CHART))


def test_the_sbom_has_every_package_that_is_shipped_with_its_hash(made: Path) -> None:
    (file,) = made.glob("*.cdx.json")
    sbom = json.loads(file.read_text())
    assert sbom["bomFormat"] == "CycloneDX"
    assert sbom["metadata"]["component"]["name"] == "schedulerd"
    assert {one["name"]: one["version"] for one in sbom["components"]} == pins("requirements.lock")
    for one in sbom["components"]:
        assert one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}"
        assert any(
            reference["type"] == "distribution" and reference["hashes"] for reference in one["externalReferences"]
        )


def test_the_same_commit_elsewhere_gives_the_same_bytes(checkout: Path, made: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a much longer name of the folder"
    shutil.copytree(checkout, copy)
    for path in copy.rglob("*.py"):
        os.utime(path, (0, 0))
    (copy / "schedulerd" / "not_committed.py").write_text("")
    done = dist(copy, tmp_path / "dist", "--pure-only")
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "dist") == contents(made)


@pytest.mark.nightly
@pytest.mark.timeout(2 * SECONDS_MAX)
def test_the_compiled_wheel_has_the_same_bytes_too(checkout: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        done = dist(checkout, tmp_path / name)
        assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "first") == contents(tmp_path / "second")
    (wheel,) = [path for path in (tmp_path / "first").glob("*.whl") if not path.name.endswith("-none-any.whl")]
    assert [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]


def test_a_folder_with_something_in_it_is_left_alone(checkout: Path, made: Path) -> None:
    before = contents(made)
    done = dist(checkout, made, "--pure-only")
    assert done.returncode == 1
    assert "must be empty" in done.stderr
    assert contents(made) == before


def version_of(checkout: Path) -> subprocess.CompletedProcess[str]:
    program = "import dist, pathlib, sys; print(dist.version(pathlib.Path(sys.argv[1])))"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "release")}
    return subprocess.run(
        [sys.executable, "-c", program, str(checkout)], capture_output=True, text=True, env=environment
    )


def test_a_tag_says_the_version(checkout: Path) -> None:
    assert version_of(checkout).stdout.strip() == schedulerd.__version__


def test_another_tag_or_none_is_refused(checkout: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(checkout, copy)
    git(copy, "tag", "--delete", TAG)
    assert f"the commit has no tag {TAG}" in version_of(copy).stderr
    git(copy, "tag", "v9.9.9")
    assert "the tag v9.9.9 has 9.9.9" in version_of(copy).stderr
    refused = dist(copy, tmp_path / "dist", "--pure-only")
    assert refused.returncode == 1
    assert refused.stderr.startswith("Error: there must be one version, but schedulerd/__init__.py has ")
    assert not (tmp_path / "dist").exists()


def test_the_image_is_of_the_same_version(checkout: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(checkout, copy)
    dockerfile = copy / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace("ARG VERSION=", "ARG VERSION=9."))
    git(copy, "commit", "--quiet", "--all", "--message", "Another version")
    git(copy, "tag", "--force", TAG)
    assert "Dockerfile has 9." in version_of(copy).stderr
