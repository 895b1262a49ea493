"""The page of all settings, from the fields of the methods' configurations.

    python tests/methods/settings_page.py > docs/methods/settings.md

A test compares the page with what this prints.
"""

from typing import Any

from medsynth.methods import registry
from medsynth.methods.registry import bounds

HEAD = """# Settings of the methods

Each can be changed with `--set NAME=VALUE`, or `settings={"NAME": VALUE}` in Python. Shares are of the first-order
privacy loss; what they leave goes to the method's main measurement. The tables follow from the code
(`python tests/methods/settings_page.py`).
"""


def table(config: Any) -> list[str]:
    """A markdown table of one method's settings."""
    lines = ["| setting | what it is [default] | must be |", "|---|---|---|"]
    for name, field in config.model_fields.items():
        text = str(field.description) + ("" if field.default in (None, ()) else f" [{field.default}]")
        number = any(kind in str(field.annotation) for kind in ("int", "float")) and "tuple" not in str(
            field.annotation
        )
        lines.append(f"| `{name}` | {text} | {bounds(config, name) if number else ''} |")
    return lines


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for name, method in registry.METHODS.items():
        lines += [
            f"## `{name}`",
            "",
            f"{method.summary[0].upper()}{method.summary[1:]}.",
            "",
            *table(method.load().Config),
        ]
        for preset, facts in method.presets.items():
            lines += ["", f"### Preset `{preset}`", "", f"{facts.summary[0].upper()}{facts.summary[1:]}.", ""]
            lines += table(method.load(preset).Config)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
