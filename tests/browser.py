"""A Chromium for the tests that look at a page as a person would."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")  # the first starts pages fastest
QUIET = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
QUIET += ["--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests. Without one they are skipped, or fail where ROCKAFELLIAN_BROWSER is "required"."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        without = pytest.fail if os.environ.get("ROCKAFELLIAN_BROWSER") == "required" else pytest.skip
        without(f"need one of {', '.join(NAMES)} to look at pages; apt-get install chromium-headless-shell")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=QUIET)
        yield chromium
        chromium.close()


class Tab:
    """A page in a profile of its own, and all that it complained about or asked for."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path) -> Any:
        """The page of a file, opened as by a double click."""
        self.page.goto(path.as_uri())
        return self.page


def until(page: Any, condition: str, arg: Any = None, *, seconds: float = 10) -> None:
    """Wait for a condition. Playwright's own wait_for_function runs text, which the policy of the page forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition, arg):
        assert time.monotonic() < end, f"{condition} did not come true in {seconds} s"
        page.wait_for_timeout(20)


def reload(page: Any) -> None:
    """Load a page again as a person would, a moment later: Chromium stores without waiting for it."""
    page.wait_for_timeout(200)
    page.reload()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """Opens tabs, by what Playwright calls the options of a context; closes them at the end."""
    tabs: list[Tab] = []

    def new(**options: Any) -> Tab:
        tabs.append(Tab(browser, **options))
        return tabs[-1]

    yield new
    for one in tabs:
        one.context.close()
