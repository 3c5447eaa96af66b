"""Makes what a release consists of, in dist/: `make dist`.

- a wheel for every machine, whose core is interpreted, and one for this machine and Python, whose core is compiled;
- the Helm chart;
- the SBOM (CycloneDX) of the Python packages that wheels and image depend on, made of requirements.lock. The Debian
  packages of an image are those of its base image, and known only once it is built: scan the image for them;
- SHA256SUMS.

What is committed is built, in a copy, and nothing else. The same commit gives the same bytes; for the compiled wheel
that needs the same compiler. The version is that of `schedulerd/__init__.py`, and a tag `v...` of the commit must say
the same: without one, the commit is some other than the release of that version, and nothing is made of it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
VERSION_FILES = {
    "schedulerd/__init__.py": r'^__version__ = "(.+)"$',
    "charts/schedulerd/Chart.yaml": r"^version: (.+)$",
    "Dockerfile": r"^ARG VERSION=(.+)$",
}
"""Where the version is written, and as what."""


CHART = "charts/schedulerd"


class Unreleasable(Exception):
    """The commit cannot be released as it is; the message says why."""


def git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(repository), *arguments], check=True, capture_output=True).stdout


def version(repository: Path) -> str:
    """The version that all files and the tag of the commit agree on. Raises `Unreleasable`."""
    found = {}
    for name, pattern in VERSION_FILES.items():
        match = re.search(pattern, git(repository, "show", f"HEAD:{name}").decode(), re.MULTILINE)
        if match is None:
            raise Unreleasable(f"{name} has no version: it must have a line like {pattern}")
        found[name] = match[1]
    tags = git(repository, "tag", "--points-at", "HEAD", "--list", "v*").decode().split()
    for tag in tags:
        found[f"the tag {tag}"] = tag.removeprefix("v")
    if len(set(found.values())) > 1:
        said = ", ".join(f"{where} has {one}" for where, one in found.items())
        raise Unreleasable(f"there must be one version, but {said}")
    number = next(iter(found.values()))
    if not tags:
        raise Unreleasable(f"the commit has no tag v{number}: tag it with `git tag v{number}` if it is that release")
    return number


def wheels(repository: Path, output: Path, *, compiled: bool) -> None:
    """Builds the wheels of the commit HEAD into `output`."""
    time_s = git(repository, "log", "-1", "--format=%ct").decode().strip()
    for is_compiled in (False, True) if compiled else (False,):
        with tempfile.TemporaryDirectory() as folder:
            source, build = Path(folder, "source"), Path(folder, "build")
            build.mkdir()
            with tarfile.open(fileobj=io.BytesIO(git(repository, "archive", "HEAD"))) as archive:
                archive.extractall(source, filter="data")
            # Compilers write the folder into what they make, unless they are told another name for it.
            environment = {
                **os.environ,
                "SOURCE_DATE_EPOCH": time_s,
                "HATCH_BUILD_HOOKS_ENABLE": str(int(is_compiled)),
                "HATCH_MYPYC_BUILD_DIR": str(build),
                "CFLAGS": f"{os.environ.get('CFLAGS', '')} -ffile-prefix-map={folder}=.".strip(),
            }
            command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(output)]
            subprocess.run(command, cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL)


def chart(repository: Path, output: Path) -> None:
    """The Helm chart of the commit HEAD, as `helm package` would make it, but for the time."""
    time_s = int(git(repository, "log", "-1", "--format=%ct"))
    with (
        tarfile.open(fileobj=io.BytesIO(git(repository, "archive", "HEAD", CHART))) as source,
        output.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=time_s) as packed,
        tarfile.open(fileobj=packed, mode="w") as target,
    ):
        for member in source:
            if member.isfile():
                content = source.extractfile(member)
                member.name = str(Path(member.name).relative_to(Path(CHART).parent))
                target.addfile(member, content)


def sbom(repository: Path, output: Path) -> None:
    """The Python packages that wheels and image depend on, with the hashes that pip checks. Nothing in it is random."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("requirements.lock", "pyproject.toml"):
            Path(folder, name).write_bytes(git(repository, "show", f"HEAD:{name}"))
        lock, project = Path(folder, "requirements.lock"), Path(folder, "pyproject.toml")
        command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--pyproject", str(project)]
        command += ["--output-reproducible", "--output-file", str(output), str(lock)]
        subprocess.run(command, check=True, capture_output=True)


def sums(folder: Path) -> None:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.name != "SHA256SUMS"
    ]
    (folder / "SHA256SUMS").write_text("".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes what a release consists of.")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "dist")
    parser.add_argument("--repository", type=Path, default=REPOSITORY)
    parser.add_argument("--pure-only", action="store_true", help="no compiled wheel, which needs a C compiler")
    given = parser.parse_args()
    output = given.output.resolve()
    try:
        number = version(given.repository)
    except Unreleasable as error:
        sys.exit(f"Error: {error}")
    output.mkdir(parents=True, exist_ok=True)
    if any(output.iterdir()):
        sys.exit(f"Error: {output} must be empty, so that a release has nothing of another one")
    wheels(given.repository, output, compiled=not given.pure_only)
    chart(given.repository, output / f"schedulerd-{number}.tgz")
    sbom(given.repository, output / f"schedulerd-{number}.cdx.json")
    sums(output)


if __name__ == "__main__":
    main()
