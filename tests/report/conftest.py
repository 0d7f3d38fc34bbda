"""A real Chromium for tests of pages."""

import pytest
from playwright.sync_api import sync_playwright

from tests.report.chromium import CHROMIUM


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed, in which a page could be opened")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()
