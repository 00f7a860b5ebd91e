"""Finds a widget's parts on a page, and controls that nothing names."""

from __future__ import annotations

from typing import Any

ROLES = ("application", "grid", "gridcell", "img", "listbox", "option", "table")


def cc(scope: Any, name: str, /, **data: Any) -> Any:
    """Find by `data-cc` and further data attributes."""
    more = "".join(f'[data-{key}="{value}"]' for key, value in data.items())
    return scope.locator(f'[data-cc="{name}"]{more}')


def unnamed(page: Any) -> list[str]:
    """The HTML of visible controls and pictures that have no label, no text and no `aria-label`."""
    found: list[str] = page.evaluate(
        """(which) => [...document.querySelectorAll(which)]
             .filter((e) => e.getClientRects().length)
             .filter((e) => !(e.getAttribute("aria-label") || e.labels?.length || e.textContent.trim()))
             .map((e) => e.outerHTML)""",
        ", ".join(["input", "select", "button", "[tabindex='0']", *(f"[role={role}]" for role in ROLES)]),
    )
    return found
