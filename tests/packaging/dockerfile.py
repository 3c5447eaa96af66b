"""Reads a Dockerfile and performs its build in a folder, so that its own text is what the tests try.

No container engine is needed: one folder stands for the root of the file system, a virtual environment for the Python
of the base image. Between stages the folder is set aside and started anew under the same path, so what a stage does not
copy is missing there, and what cannot move (a virtual environment) breaks as it would in an image.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    """One instruction, continuation lines joined: `COPY --from=build /a /b` has flags {"from": "build"}."""

    keyword: str
    flags: dict[str, str]
    text: str

    def words(self) -> list[str]:
        """The arguments of either form: a JSON list or words apart by spaces. ENV values here hold no spaces."""
        if self.text.startswith("["):
            return [str(word) for word in json.loads(self.text)]
        return self.text.split()


@dataclass(frozen=True)
class Stage:
    """From one FROM to the next."""

    image: str
    name: str
    instructions: list[Instruction]

    def last(self, keyword: str) -> Instruction:
        """The instruction that counts where only the last one does, such as USER or CMD. Raises LookupError."""
        found = [instruction for instruction in self.instructions if instruction.keyword == keyword]
        if not found:
            raise LookupError(f"stage {self.name or self.image} has no {keyword}")
        return found[-1]


def parse(text: str) -> list[Stage]:
    """The stages of a Dockerfile, their images by the defaults of the ARGs before the first FROM.

    Raises ValueError for another instruction before that.
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    images: dict[str, str] = {}
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        keyword, _, rest = line.strip().partition(" ")
        flags: dict[str, str] = {}
        while match := re.match(r"\s*--(\S+?)=(\S+)\s+", rest):
            flags[match[1]] = match[2]
            rest = rest[match.end() :]
        if keyword == "FROM":
            image, _, name = rest.strip().partition(" AS ")
            stages.append(Stage(re.sub(r"\$\{(\w+)\}", lambda found: images[found[1]], image), name, []))
        elif not stages and keyword == "ARG":
            variable, _, default = rest.strip().partition("=")
            images[variable] = default
        elif not stages:
            raise ValueError(f"{keyword} before the first FROM")
        else:
            stages[-1].instructions.append(Instruction(keyword, flags, rest.strip()))
    return stages


def copy_build_context(source: Path, context: Path) -> None:
    """Copies what a .dockerignore of the form `*`, `!name`..., `**/name`... lets into the build.

    Raises ValueError for another kind of line.
    """
    names, ignored = [], []
    for line in (source / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            names.append(line.removeprefix("!"))
        elif line.startswith("**/"):
            ignored.append(line.removeprefix("**/"))
        elif line and line != "*" and not line.startswith("#"):
            raise ValueError(f".dockerignore: {line!r} is none of `*`, `!name`, `**/name`")
    for name in names:
        if (source / name).is_dir():
            shutil.copytree(source / name, context / name, ignore=shutil.ignore_patterns(*ignored))
        else:
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, context / name)


@dataclass
class Build:
    """Performs stages one after the other; `root` holds the file system of the last one performed."""

    context: Path
    folder: Path
    arguments: dict[str, str] = field(default_factory=dict)
    """What `docker build --build-arg` would be given."""
    environment: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    labels: dict[str, str] = field(default_factory=dict)
    """Of the image."""

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def set_aside(self, stage_name: str) -> Path:
        """Where the file system of a finished stage is kept for COPY --from."""
        return self.folder / "stages" / stage_name

    def inside(self, text: str) -> str:
        """`text` with every absolute path in it moved below the root."""
        return re.sub(r"(?<![\w./:])/(?=[a-z]|$)", f"{self.root}/", text)

    def perform(self, stages: list[Stage]) -> None:
        """Performs all stages in order. Raises RuntimeError with a command and its output when a RUN fails."""
        subprocess.run([sys.executable, "-m", "venv", str(self.folder / "image")], check=True, timeout=120)
        for stage, following in zip(stages, [*stages[1:], None], strict=True):
            self._begin()
            for instruction in stage.instructions:
                self.perform_one(instruction)
            if following is not None:
                self.set_aside(stage.name).parent.mkdir(exist_ok=True)
                self.root.rename(self.set_aside(stage.name))

    def run(self, command: list[str] | str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs a command (a string through the shell) as the stage would, in its WORKDIR and with its ENV.

        stdout of the result carries stderr too. Raises subprocess.TimeoutExpired, the command being ended by then.
        """
        with self.start(["/bin/sh", "-c", command] if isinstance(command, str) else command) as process:
            try:
                output, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def start(self, command: list[str], **environment: str) -> subprocess.Popen[str]:
        """Starts a command likewise, with more `environment`; its stdout carries its stderr too."""
        executable = shutil.which(command[0], path=self.environment["PATH"])
        return subprocess.Popen(
            [executable or command[0], *command[1:]],
            cwd=self.inside(self.workdir),
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _begin(self) -> None:
        self.root.mkdir()
        self.workdir = "/"
        outer = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        self.environment = {**outer, "PATH": f"{self.folder / 'image' / 'bin'}:/usr/bin:/bin"}

    def perform_one(self, instruction: Instruction) -> None:
        match instruction.keyword:
            case "WORKDIR":
                self.workdir = instruction.text
                Path(self.inside(self.workdir)).mkdir(parents=True, exist_ok=True)
            case "ARG":
                name, _, default = instruction.text.partition("=")
                self.environment[name] = self.arguments.get(name, default)
            case "ENV":
                for word in instruction.words():
                    name, _, value = word.partition("=")
                    self.environment[name] = re.sub(
                        r"\$(\w+)", lambda match: self.environment[match[1]], self.inside(value)
                    )
            case "COPY":
                self._copy(instruction)
            case "RUN":
                done = self.run(self.inside(instruction.text), timeout_s=240)
                if done.returncode != 0:
                    raise RuntimeError(f"RUN {instruction.text}\nexit {done.returncode}\n{done.stdout}")
            case "LABEL":
                for name, value in re.findall(r'(\S+)="([^"]*)"', instruction.text):
                    self.labels[name] = re.sub(r"\$(\w+)", lambda match: self.environment[match[1]], value)
            case "USER" | "EXPOSE" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
                pass  # they describe the image's start, not its content
            case unknown:
                raise ValueError(f"the tests cannot perform {unknown}: teach tests/packaging/dockerfile.py")

    def _copy(self, instruction: Instruction) -> None:
        *sources, target_word = instruction.words()
        stage_name = instruction.flags.get("from")
        origin = self.set_aside(stage_name) if stage_name else self.context
        target = Path(self.inside(target_word)) if target_word.startswith("/") else self._workdir_path() / target_word
        for word in sources:
            source = origin / word.lstrip("/")
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            else:
                into = target / source.name if target_word.endswith("/") else target
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, into)

    def _workdir_path(self) -> Path:
        return Path(self.inside(self.workdir))
