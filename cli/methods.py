"""The command `medsynth methods`: the methods that a fit can use, and the settings of each."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from medsynth.methods import registry
from medsynth.methods.registry import MethodEntry

from .console import guarded, result
from .options import Json

Name = Annotated[str | None, typer.Argument(help="Method or preset: print its settings.")]


@guarded
def methods(name: Name = None, as_json: Json = False) -> None:
    """List the methods of a fit and their presets, or the settings of one.

    Examples:

        medsynth methods

        medsynth methods dp-gan
    """
    if name is None:
        found = [about(entry) for entry in registry.METHODS.values()]
        result({"methods": found}, "\n".join(_table(found)), as_json=as_json)
        return
    preset = name if name in registry.presets() else None
    entry = registry.find(None if preset else name, preset)
    facts = about(entry) | {"preset": preset, "settings": _settings(entry, preset)}
    result(facts, "\n".join(_page(facts)), as_json=as_json)


def about(entry: MethodEntry) -> dict[str, Any]:
    """Return the public facts about a method as plain data."""
    return {
        "name": entry.name,
        "default": entry.name == registry.DEFAULT,
        "summary": entry.summary,
        "presets": {name: preset.summary for name, preset in entry.presets.items()},
        "no_claim": entry.no_claim,
        "conditional_sampling": entry.conditional_sampling,
        "public_rows": entry.public_rows,
        "without_target": entry.without_target,
        "replicable": entry.replicable,
    }


def _settings(entry: MethodEntry, preset: str | None) -> list[dict[str, Any]]:
    config = entry.load(preset).Config
    return [
        {"name": name, "default": field.default, "about": field.description, "bounds": registry.bounds(config, name)}
        for name, field in config.model_fields.items()
    ]


def _table(found: list[dict[str, Any]]) -> list[str]:
    """Return one line for each method and each preset."""
    lines = [f"{'method, preset':<24} what it does"]
    for facts in found:
        lines.append(f"{facts['name'] + ' (default)' * facts['default']:<24} {facts['summary']}")
        lines += [f"  {preset:<22} {summary}" for preset, summary in facts["presets"].items()]
    return [
        *lines,
        "",
        "Settings of one: medsynth methods NAME. To use it: medsynth fit TABLE --epsilon E --method NAME.",
    ]


def _page(facts: dict[str, Any]) -> list[str]:
    """Return what a method does and takes, and its settings."""
    able = {
        "conditional_sampling": "draws rows under conditions (--where, --balance)",
        "public_rows": "learns from public rows too (--public)",
        "without_target": "fits a table without a target (--target none)",
        "replicable": "makes replicates (--replicates)",
    }
    preset = facts["preset"]
    named = [f"{preset}, a preset of {facts['name']}: {facts['presets'][preset]}."] if preset else []
    lines = [*named, f"{facts['name']}: {facts['summary']}."]
    lines += [f"  - {words}" for key, words in able.items() if facts[key]]
    lines += [f"NO PRIVACY CLAIM: {facts['no_claim']}."] if facts["no_claim"] else []
    lines += [f"Preset {name}: {summary}." for name, summary in facts["presets"].items() if not preset]
    lines += ["", f"{'setting (--set NAME=VALUE)':<28} {'default':<12} what it is"]
    return lines + [f"{one['name']:<28} {one['default']!s:<12} {one['about'] or ''}" for one in facts["settings"]]
