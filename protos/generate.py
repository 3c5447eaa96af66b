"""Generates schedulerd/_generated from the .proto files, or proves with --check that it is fresh.

The generated code is checked in, so users and packagers need no compiler. protoc writes imports relative to the proto
root (`from si.v1 import si_pb2`); they are rewritten to the package's own place, so that the descriptors' file names,
which reflection shows to other languages, stay free of Python's layout.
"""

from __future__ import annotations

import argparse
import filecmp
import importlib.resources
import re
import shutil
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

PROTOS = Path(__file__).resolve().parent
TARGET = PROTOS.parent / "schedulerd" / "_generated"
PACKAGE = "schedulerd._generated"
TYPE_PLUGINS = ("mypy", "mypy_grpc")
"""protoc plugins of mypy-protobuf, installed beside the interpreter."""
PACKAGE_DOCSTRING = '"""Code generated from protos/ by protos/generate.py; do not edit."""\n'


def proto_files() -> list[str]:
    """The .proto files' names relative to protos/, which are their names in the descriptors."""
    return sorted(path.relative_to(PROTOS).as_posix() for path in PROTOS.rglob("*.proto"))


def rewrite_imports(source: str, own_packages: set[str]) -> str:
    """Moves imports of our own proto packages (`si.v1`) under `schedulerd._generated`."""
    for package in own_packages:
        name = re.escape(package)
        source = re.sub(rf"^from {name} import ", f"from {PACKAGE}.{package} import ", source, flags=re.MULTILINE)
    return source


def generate(target: Path) -> None:
    """Writes messages, gRPC stubs and their type annotations below `target`, which must exist.

    Raises RuntimeError when protoc refuses; its own words are on stderr by then.
    """
    protos = proto_files()
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    plugins = [
        f"--plugin=protoc-gen-{kind}={Path(sys.executable).parent / f'protoc-gen-{kind}'}" for kind in TYPE_PLUGINS
    ]
    outputs = [f"--{kind}_out={target}" for kind in ("python", "grpc_python")]
    outputs += [f"--{kind}_out=quiet:{target}" for kind in TYPE_PLUGINS]
    if protoc.main(["protoc", f"-I{PROTOS}", f"-I{well_known}", *plugins, *outputs, *protos]) != 0:
        raise RuntimeError(f"protoc failed on {', '.join(protos)}")
    own_packages = {Path(proto).parent.as_posix().replace("/", ".") for proto in protos}
    for path in target.rglob("*.py*"):
        path.write_text(rewrite_imports(path.read_text(), own_packages))
    for folder in [target, *(path for path in target.rglob("*") if path.is_dir())]:
        (folder / "__init__.py").write_text(PACKAGE_DOCSTRING)


def generated_files(target: Path) -> set[str]:
    return {
        path.relative_to(target).as_posix()
        for path in target.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def stale_files(fresh: Path) -> list[str]:
    """Names whose content below schedulerd/_generated differs from `fresh`, or that only one of the two has."""
    expected, present = generated_files(fresh), generated_files(TARGET)
    _, mismatches, errors = filecmp.cmpfiles(fresh, TARGET, expected & present, shallow=False)
    return sorted({*mismatches, *errors, *(expected ^ present)})


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate schedulerd/_generated from protos/.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the generated code is stale")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / TARGET.name
        fresh.mkdir()
        generate(fresh)
        if arguments.check:
            stale = stale_files(fresh)
            for name in stale:
                print(f"schedulerd/_generated/{name} is not what protos/ gives: run `make protos`", file=sys.stderr)
            return 1 if stale else 0
        shutil.rmtree(TARGET, ignore_errors=True)
        shutil.copytree(fresh, TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
