"""Debian's chromium, driven by playwright: a context that notes what must not happen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


class Tabs:
    """Tabs of one browser window on one daemon. Everything that goes wrong in them is noted in `problems`."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self.problems: list[str] = []
        self.context: BrowserContext = browser.new_context(base_url=url, **options)
        self.context.set_default_timeout(20_000)
        self.context.on("page", self._watch)

    def _watch(self, page: Page) -> None:
        page.on("console", self._note_console)
        page.on("pageerror", lambda error: self.problems.append(f"error {error}"))
        page.on("request", self._note_request)
        page.on("dialog", self._note_dialog)

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.text}")

    def _note_dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith(self.url):
            self.problems.append(f"request {request.url}")

    def open(self, path: str) -> Page:
        page = self.context.new_page()
        page.goto(path)
        return page

    def close(self) -> None:
        self.context.close()


@contextmanager
def tabs(browser: Browser, url: str, **options: Any) -> Iterator[Tabs]:
    found = Tabs(browser, url, **options)
    try:
        yield found
    finally:
        found.close()


def until(page: Page, condition: str) -> None:
    """Waits for a condition. Playwright has a function for it, which the policy of the page does not allow."""
    deadline = time.monotonic() + 20
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(50)
