"""Every command block of README and docs works as it is printed, and prints what its page shows."""

import re
import shutil
import socket
from collections import Counter
from pathlib import Path

import pytest
import yaml
from blocks import LANGUAGES, MEASUREMENT, PAGES, ROOT, Differs, Lacks, Reader, blocks, first_difference

# Blocks that no test runs, by page. Add to it only with a reason on the page that no other wording of the page cures.
NOT_RUN = {
    "README.md": 2,
    "docs/how-to/app.md": 1,
    "docs/how-to/databases.md": 1,
    "docs/how-to/cluster.md": 1,
    "docs/how-to/federation.md": 1,
    "docs/how-to/fhir.md": 1,
    "docs/methods/dp-cgan.md": 1,
    "docs/start.md": 1,
}
INDENTED = re.compile(r"(?:\A|\n\n)((?: {4}(?![-*\d])\S.*\n(?: {4}.*\n)*)+)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.nightly
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_reader_who_follows_a_page_sees_what_it_shows(page: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The folder's name is short, because a page opens sockets there, whose paths have at most 103 bytes."""
    try:
        Reader(tmp_path_factory.mktemp("page")).follow(page.read_text())
    except Lacks as reason:
        pytest.skip(str(reason))


def test_each_block_states_what_it_is() -> None:
    for page in PAGES:
        for block in blocks(page.read_text()):
            assert block.language in LANGUAGES, (name_of(page), block.line)
            if block.language == "yaml":
                yaml.safe_load(block.body)
            if block.language == "console":
                assert block.body.startswith("$ "), (name_of(page), block.line)


def test_every_fence_is_read() -> None:
    for page in PAGES:
        text = page.read_text()
        fences = len(re.findall(r"^ *```", text, re.MULTILINE))
        assert fences == 2 * sum("```" in text.splitlines()[block.line - 1] for block in blocks(text)), name_of(page)


def test_commands_are_in_blocks_with_a_language() -> None:
    """An indented block is no command, except those that take hours: `test_results.py` checks them."""
    command = re.compile(r"^(?:\$ )?(?:medsynth|python|pip|nvflare|dask|make|export|cd|mkdir) ")
    for page in PAGES:
        for body in INDENTED.findall(page.read_text()):
            for line in (line.strip() for line in body.splitlines()):
                assert not command.match(line) or line.startswith(MEASUREMENT), (name_of(page), line)


def test_the_blocks_that_are_not_run_are_known() -> None:
    found = Counter(name_of(page) for page in PAGES for block in blocks(page.read_text()) if block.why_not is not None)
    assert dict(found) == NOT_RUN


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("```sh\nfalse\n```", "exit code 1"),
        ("```sh\nfalse\ntrue\n```", "exit code 1"),
        ("```sh\nfalse | true\n```", "exit code 1"),
        ("<!-- run: exit 3 -->", "exit code 3"),
        ("```python\nassert False\n```", "exit code 1"),
        ("```python\na = 1\n```\n\n```python\nassert a == 2\n```", "exit code 1"),
        ("```console\n$ echo a\nb\n```", "shown and not printed there: b"),
        ("```console\n$ echo a\n$ echo b\nc\n```", "shown and not printed there: c"),
        ("```console\n$ seq 3\n1\n...\n2\n```", "the end"),
        ("```console\n$ ls *\nls.txt\n```", "exit code 2"),
    ],
)
def test_a_page_that_does_not_work_fails(body: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(Differs, match=reason):
        Reader(tmp_path).follow(f"A page.\n\n{body}\n")


def test_a_flare_server_of_a_page_has_a_free_port(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("localhost", 0))
        taken = other.getsockname()[1]
        Reader(tmp_path).follow(f'```yaml title="a.yml"\nfed_learn_port: {taken}\nn: 2\n```\n')
    assert (tmp_path / "a.yml").read_text() != f"fed_learn_port: {taken}\nn: 2\n"
    assert "n: 2" in (tmp_path / "a.yml").read_text()


def test_blocks_of_r_are_one_script_that_runs_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "clean").mkdir()
    block = "```r\nstopifnot(base::file.exists('b'))\nx <- 1\n```\n```sh\ntouch b\n```\n```r\nstopifnot(x == {})\n```\n"
    if shutil.which("Rscript"):
        Reader(folder).follow(block.format(1))
        with pytest.raises(Differs, match="exit code 1"):
            Reader(folder).follow(block.format(2))
        with pytest.raises(Lacks, match=r"packages of R: nosuchpackage\."):
            Reader(folder).follow("```r\nlibrary(nosuchpackage)\n```\n")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(Lacks, match="needs R"):
        Reader(folder).follow(block.format(1))


def test_the_data_of_a_page_are_where_the_reader_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, folder = "<!-- data: trial/a.csv -->\n```console\n$ cat a.csv\nx\n```\n", tmp_path / "clean"
    folder.mkdir()
    monkeypatch.setenv("MEDSYNTH_DATA", str(tmp_path))
    with pytest.raises(Lacks, match="trial/a.csv"):
        Reader(folder).follow(page)
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "a.csv").write_text("x\n")
    Reader(folder).follow(page)


def test_a_page_that_works_passes(tmp_path: Path) -> None:
    page = """\
```yaml title="a.yaml"
a: 1
```
```sh
cat a.yaml  # the file above
sleep 60 &
```
<!-- not run: it would fail -->
```sh
false
```
<!-- run: echo 'a: 2' > a.yaml -->
```console
$ cat a.yaml
a: 2
$ printf 'one\\ntwo 0.50\\nthree\\n'
...
two 0.45
...
```
```python
a = 1
```
```python
assert a == 1
```
"""
    Reader(tmp_path).follow(page)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("took 3 s", "took 41 s", True),
        ("3.693", "3.7", True),
        ("3.693", "9.1", False),
        ("10000 rows", "10000 rows", True),
        ("a 90 %, 40%", "a 99 %, 35%", True),
        ("a 90%", "a 40%", False),
        ("10000 rows", "9999 rows", False),
        ("a  b", "a b", True),
        ("2026-11-27T10:00:00+00:00  mixture", "2027-01-01T09:00:00+00:00  mixture", True),
        ("a\n...", "a\nb\nc", True),
        ("...\nc", "a\nb\nc", True),
        ("a", "a\nb", False),
        ("-0.5", "0.5", False),
    ],
)
def test_lines_are_compared_as_the_docstring_says(shown: str, printed: str, same: bool) -> None:
    assert (first_difference(shown.splitlines(), printed.splitlines()) is None) is same
