"""Print the page of all settings, from the fields of the methods' configurations.

    python tests/methods/settings_page.py > docs/methods/settings.md

A test compares the page with this output.
"""

from collections.abc import Mapping
from typing import Any, get_args

from medsynth.methods import registry
from medsynth.methods.registry import bounds

HEAD = """# Settings of the methods

For readers who tune a [method](README.md). This page lists what `--set NAME=VALUE` can change, or
`settings={"NAME": VALUE}` in Python.

Names with `_share` are shares of the privacy loss. The shares of a method are above 0 and sum to less than 1. The main
measurement gets the rest. Other numbers are above 0, and counts are whole. Further bounds are in brackets.
"""
USUAL = ("a share above 0 and below 1", "above 0 and whole", "above 0")
SET_OTHERWISE = {"public"}  # settings that follow from other options
Fields = Mapping[str, str]  # the line of each setting


def fields(config: Any) -> Fields:
    """Return the table line of each setting: name, default, meaning."""
    lines = {}
    for name, field in config.model_fields.items():
        if name in SET_OTHERWISE:
            continue
        kind, meaning = str(field.annotation), str(field.description)
        if choices := [str(choice) for choice in get_args(field.annotation) if "Literal" in kind]:
            meaning += f" [{', '.join(choices)}]"
        elif any(number in kind for number in ("int", "float")) and "tuple" not in kind:
            limits = bounds(config, name)
            zero = " [may be 0]" if "at least 0" in limits else ""
            meaning += zero or ("" if limits in USUAL else f" [{limits.split(' and ')[-1]}]")
        default = "" if field.default in (None, ()) else str(field.default)
        lines[name] = f"| `{name}` | {default} | {meaning} |"
    return lines


def table(lines: Fields) -> list[str]:
    """Return a markdown table of settings."""
    return ["| setting | default | meaning |", "|---|---|---|", *lines.values()]


def names(some: list[str]) -> str:
    """Return names in a row."""
    return ", ".join(f"`{name}`" for name in some)


def differing(own: Fields, base: str, of_base: Fields) -> list[str]:
    """Return how settings differ from those of `base`, or all of them if few are shared."""
    left_out = [name for name in of_base if name not in own]
    new = {name: line for name, line in own.items() if of_base.get(name) != line}
    if len(new) > len(own) / 2:
        return table(own)
    without = f", without {names(left_out)}" if left_out else ""
    return [f"Settings as for `{base}`{without}{'. Different:' if new else '.'}", *(["", *table(new)] if new else [])]


def page() -> str:
    """Return the whole page."""
    lines, default = [HEAD], fields(registry.METHODS[registry.DEFAULT].load().Config)
    for name, method in registry.METHODS.items():
        own = fields(method.load().Config)
        shown = table(own) if name == registry.DEFAULT else differing(own, registry.DEFAULT, default)
        lines += [f"## `{name}`", "", f"{method.summary[0].upper()}{method.summary[1:]}.", "", *shown]
        for preset, facts in method.presets.items():
            lines += ["", f"### Preset `{preset}`", "", f"{facts.summary[0].upper()}{facts.summary[1:]}.", ""]
            lines += differing(fields(method.load(preset).Config), name, own)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
