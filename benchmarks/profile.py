"""Where the time of a placement goes: `python -m benchmarks.profile WORKLOAD` samples its runs from outside.

The sampler is py-spy, a program of its own that reads the stack of a process without taking part in it. So nothing is
slower where it is called more often, and what C code takes counts for the function that called it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from benchmarks.report import table

SAMPLES_PER_S = 500
DAEMON = ("schedulerd serve", "Runner.run (asyncio/runners.py")
"""The daemon's process, and the loop in it: its other threads wait, which a sampler takes for work."""
MEASURED = ("carry_out (benchmarks/in_process.py",)
"""The function in which an in-process run is measured: what is outside is not of interest."""


@click.command()
@click.argument("workload")
@click.option("--grpc", "through_grpc", is_flag=True, help="The daemon, while the workload runs through gRPC.")
@click.option("--repeat", "times", type=click.IntRange(min=1), default=5, show_default=True, help="Runs.")
@click.option("--top", type=click.IntRange(min=1), default=40, show_default=True, help="Functions to show.")
@click.option(
    "--stacks",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("profile.folded"),
    show_default=True,
    help="Where to write the samples as folded stacks, which https://www.speedscope.app shows as a flame graph.",
)
def main(workload: str, through_grpc: bool, times: int, top: int, stacks: Path) -> None:
    """Print what each function itself takes of a placement of WORKLOAD, and the sum beside what was measured."""
    sampler = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if sampler is None:
        raise click.ClickException("there is no py-spy: pip install py-spy")
    with tempfile.TemporaryDirectory(prefix="schedulerd-profile-") as directory:
        raw, numbers = Path(directory, "raw"), Path(directory, "numbers.json")
        record = [sampler, "record", "--subprocesses", "--function", "--rate", str(SAMPLES_PER_S)]
        measure = [sys.executable, "-m", "benchmarks", workload, "--repeat", str(times), "--json", str(numbers)]
        if through_grpc:
            measure.append("--grpc")
        code = subprocess.run([*record, "--format", "raw", "--output", raw, "--", *measure]).returncode
        if code or not numbers.exists():
            raise click.ClickException(f"{workload} was not measured, or not sampled (exit code {code})")
        (result,) = json.loads(numbers.read_text(encoding="utf-8"))["results"]
        samples = list(_samples(raw.read_text(encoding="utf-8").splitlines(), DAEMON if through_grpc else MEASURED))
    stacks.write_text("".join(f"{';'.join(frames)} {count}\n" for frames, count in samples), encoding="utf-8")
    us_per_sample = 1e6 / SAMPLES_PER_S / (result["allocations"] * times)
    own: Counter[str] = Counter()
    for frames, count in samples:
        own[frames[-1]] += count
    click.echo(_report(own, top, us_per_sample))
    click.echo(f"\nCPU us each by the clock of the process: {result['cpu_us']:,.2f}. The stacks are in {stacks}.")


def _samples(lines: Iterable[str], inside: Sequence[str]) -> Iterator[tuple[list[str], int]]:
    """Frames from the outermost to the innermost, and how often they were seen; from the last one of `inside` on."""
    for line in lines:
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        for name in inside:
            first = next((at for at, frame in enumerate(frames) if name in frame), len(frames))
            frames = frames[first:]
        if frames:
            yield frames, int(count)


def _report(own: Counter[str], top: int, us_per_sample: float) -> str:
    total = own.total()
    rows = [(name, count) for name, count in own.most_common(top)]
    rows += [("all others", total - sum(count for _, count in rows)), ("sum", total)]
    return table(
        [
            {"us each": f"{count * us_per_sample:,.2f}", "share": f"{count / total:.1%}", "function": name}
            for name, count in rows
        ]
    )


if __name__ == "__main__":
    main()
