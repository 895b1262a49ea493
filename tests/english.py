"""Reads every sentence of the tree and prints those that tests/english.toml forbids: `python tests/english.py [FILE]`.

It reads pages, page templates, docstrings, comments and the texts of messages. Code, tables and links are left out.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
RULES = tomllib.loads((ROOT / "tests" / "english.toml").read_text())
IDIOMS = [(re.compile(rule["pattern"], re.IGNORECASE), rule["instead"]) for rule in RULES["idiom"]]
# Left as they were written: what was decided or released then.
RECORDS = ("CHANGELOG.md", "docs/decisions/research-log.md")
FENCED = re.compile(r"^ *```.*?^ *```$|^---\n.*?^---$|<!--.*?-->|\$\$.*?\$\$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"``.+?``|`[^`\n]*`|\$[^$\n]+\$|\[\^[^\]]*\]")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
END = re.compile(r"(?<=[.!?:;])[\"')*]*\s+|\n\s*\n|\n\s*(?:[-*#>|]|\d+\.)\s+")
WORD = re.compile(r"[\w'’.,%-]*\w[\w'’%-]*")
Text = tuple[int, str]  # line number, text


def files() -> Iterator[Path]:
    """Yield all files with sentences."""
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md"))
    for folder, ending in (
        ("docs", "md"),
        ("medsynth", "py"),
        ("cli", "py"),
        ("sample_data", "py"),
        ("medsynth", "html"),
        ("medsynth", "yaml"),
        ("medsynth", "json"),
    ):
        yield from sorted((ROOT / folder).rglob(f"*.{ending}"))


def of_source(source: str) -> Iterator[Text]:
    """Yield docstrings, comments and the other texts of a module; a placeholder counts as one word."""
    inner = set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in ast.walk(node) if part is not node}
            parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield node.lineno, "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def of_page(text: str) -> Iterator[Text]:
    """Yield the paragraphs of a page."""
    text = FENCED.sub(lambda found: "\n" * found[0].count("\n"), text)
    lines = ["" if line.startswith(("|", "    ", "\t", "#")) else line for line in text.split("\n")]
    prose = "\n".join(lines)
    for found in re.finditer(r"(?:.+\n?)+", prose):
        yield prose.count("\n", 0, found.start()) + 1, found[0]


def plain(text: str) -> str:
    """Return the text with code, formulas and addresses as single words."""
    return LINK.sub(r"\1", CODE.sub("X", text))


def findings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield a line number and what is wrong there."""
    whole = path.read_text()
    name = path.relative_to(ROOT).as_posix()
    if name in RECORDS:
        return
    if path.suffix == ".html":
        whole = re.sub(r"\{[{%#].*?[}%#]\}|<(?:script|style)\b.*?</(?:script|style)>", " X ", whole, flags=re.DOTALL)
        whole = re.sub(r"</?(?:p|li|h\d|td|th|div|section|ul|ol|summary|figcaption|dt|dd)\b[^>]*>", "\n\n", whole)
        whole = re.sub(r"<[^>]*>", "", whole)
    for line, text in of_source(whole) if path.suffix == ".py" else of_page(whole):
        for pattern, instead in IDIOMS:
            for found in pattern.finditer(plain(text)):
                yield line + text[: found.start()].count("\n"), f"'{found[0].strip()}': write {instead}"
        if path.suffix == ".py" and " " not in text.strip():
            continue
        for sentence in END.split(plain(text)):
            words = WORD.findall(sentence or "")
            if len(words) > RULES["sentence"]:
                yield line, f"{len(words)} words: {' '.join(words[:8])} ..."
    if path.suffix == ".md":
        for number, text in enumerate(path.read_text().split("\n"), 1):
            if len(text) > RULES["line"] and not text.lstrip().startswith(("|", "[", "![", "<!--", "::: ")):
                yield number, f"{len(text)} characters in a line"


def main(names: list[str]) -> int:
    """Print findings as FILE:LINE. Return 1 if there are any."""
    wrong = 0
    for path in [Path(name).resolve() for name in names] or list(files()):
        for line, text in sorted(set(findings(path))):
            print(f"{path.relative_to(ROOT)}:{line}: {text}")
            wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
