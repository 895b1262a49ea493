"""Limits and misuse: words alone."""

from __future__ import annotations

from ..registry import Section

SECTION = Section(id="limits", title="Limits and misuse")
