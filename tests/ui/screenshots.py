"""Makes the screenshots of the documentation: each page, in both themes and as on a telephone, from a played story."""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

from playwright.sync_api import Browser

from tests.contract.daemon_process import DaemonProcess
from tests.ui.browser import chromium, tabs, until
from tests.ui.story import CHANGED_QUEUES, QUEUES, Story

PAGES = {
    "overview": "/ui/",
    "queues": "/ui/queues",
    "queue": "/ui/queue?path=root.batch",
    "applications": "/ui/applications?pending=yes",
    "application": "/ui/application?id=vision-pretrain",
    "ask": "/ui/ask?application=vision-pretrain&ask=vision-pretrain-ph-63",
    "nodes": "/ui/nodes",
    "node": "/ui/node?id=eu-08-01",
    "events": "/ui/events",
}
IN_DOCS = {"overview": "light", "application": "light", "nodes": "dark"}
"""The ones in the README, with their theme."""
TURN_SECONDS = 10.0
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 390, "height": 844}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/screenshots"))
    parser.add_argument("--docs", type=Path, help="where those of the README go too")
    parser.add_argument("--seconds", type=float, default=300, help="how long the story goes on, for the history")
    arguments = parser.parse_args()
    for folder in filter(None, (arguments.output, arguments.docs)):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prod-eu.yaml"
        file.write_text(QUEUES)
        with (
            DaemonProcess("--config", str(file), "--queue-file-poll-s", "1") as daemon,
            Story(daemon.target, "") as story,
        ):
            story.do(Story.morning)
            for number in range(turns := max(2, int(arguments.seconds / TURN_SECONDS))):
                if number == turns // 2:
                    story.do(Story.noon)
                    file.write_text(CHANGED_QUEUES)
                story.do(partial(Story.turn, number=number))
                time.sleep(TURN_SECONDS)
            with chromium() as browser:
                _take_all(browser, daemon.url, arguments.output, arguments.docs)


def _take_all(browser: Browser, url: str, output: Path, docs: Path | None) -> None:
    for theme in ("light", "dark"):
        for size, viewport in (("wide", WIDE), ("narrow", NARROW)):
            with tabs(browser, url, viewport=viewport, color_scheme=theme) as window:
                for name, path in PAGES.items():
                    page = window.open(path)
                    until(page, "source !== null && source.readyState === 1")
                    page.wait_for_timeout(1_500)
                    file = output / f"{name}-{theme}-{size}.png"
                    page.screenshot(path=file)
                    if docs is not None and size == "wide" and IN_DOCS.get(name) == theme:
                        (docs / f"page-{name}.png").write_bytes(file.read_bytes())
                    print(f"{file} {file.stat().st_size:,} bytes")
                    page.close()


if __name__ == "__main__":
    main()
