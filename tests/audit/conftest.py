"""The browser, for every test here."""

from browser import browser, tab

__all__ = ["browser", "tab"]
