"""Mutated artifacts and schemas: is each read, or refused with one clear error? Is nothing ever run or stuck?

Half are artifacts (bytes changed; contents changed and signed again, as a hostile author would; tensors changed), half
schemas (characters, lines and values changed, hostile tags inserted). What is read is used as well: rows are sampled, a
table is encoded. Every case has five seconds. An audit hook sees whatever would start a program or open a socket.
"""

from __future__ import annotations

import copy
import json
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks.common import options

SECONDS = 5
FORBIDDEN = ("os.system", "subprocess.Popen", "pickle.find_class", "socket.connect", "os.exec", "os.posix_spawn")
HOSTILE: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 1e308, -1e308, float("nan"), "", "x" * 3000, "\u0000", [], {}, [[]], {"": None},
    "__import__('os').system('true')", "!!python/object/apply:os.system [true]", "../../x", [1] * 500,
]  # fmt: skip
WORDS = ["!!python/object/apply:os.system [true]", "&a [*a]", "*b", "{", "[[[[[[", ": :", "\t", "TODO", "1e999",
         ".nan", "-", "? x", "rules: ['x = __import__(1)']", "unit: x", "missing: [[]]", "hierarchy: {a: a}",
         "\u2028"]  # fmt: skip
SCHEMA = """\
name: fuzz
target: y
unit: who
max_rows: 3
columns:
  who: {kind: identifier, shape: "P-###"}
  seen: {kind: date, bounds: [2019-01-01, 2021-12-31]}
  left: {kind: date, after: seen, bounds: [0, 30], missing: true}
  age: {kind: count, bounds: [0, 120], unit: years}
  dose: {kind: continuous, bounds: [0, 9], decimals: 1, scale: log, missing: [-9, refused]}
  twice: {kind: continuous, bounds: [0, 18], decimals: 1, missing: true}
  ward: {kind: categorical, hierarchy: {medicine: [heart, kidney], surgery: []}, levels: [heart, o], unknown: o}
  grade: {kind: ordinal, levels: [mild, severe]}
  y: {kind: binary, levels: ["no", "yes"]}
rules:
  - twice = dose * 2
  - grade = severe implies age > 17
"""


def table(rows: int = 60) -> pd.DataFrame:
    """Return a table that meets the schema."""
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), "D")
    return pd.DataFrame({
        "who": [f"P-{k // 2:03}" for k in range(rows)], "seen": day.strftime("%Y-%m-%d"),
        "left": (day + pd.Timedelta(days=3)).strftime("%Y-%m-%d"), "age": rng.integers(18, 99, rows),
        "dose": rng.choice(["-9", "refused", "1.5"], rows), "twice": "3.0",
        "ward": rng.choice(["heart", "kidney"], rows), "grade": rng.choice(["mild", "severe"], rows),
        "y": rng.choice(["no", "yes"], rows),
    })  # fmt: skip


def spoiled(content: object, rng: random.Random) -> object:
    """Return plain data with one place changed, removed or doubled."""
    content = copy.deepcopy(content)
    at, places = content, []
    stack = [content]
    while stack:
        at = stack.pop()
        if isinstance(at, dict | list):
            places += [(at, key) for key in (list(at) if isinstance(at, dict) else range(len(at)))]
            stack += list(at.values()) if isinstance(at, dict) else at
    where, key = rng.choice(places)
    choice = rng.random()
    if choice < 0.15:
        del where[key]
    elif choice < 0.25 and isinstance(where, list):
        where.append(where[key])
    elif choice < 0.35 and isinstance(where, dict):
        where[str(rng.choice(HOSTILE))[:20]] = where[key]
    else:
        where[key] = rng.choice([*HOSTILE, rng.randint(-5, 5), rng.choice(places)[0]])
        try:
            json.dumps(where[key])
        except ValueError:  # It contains itself.
            where[key] = None
    return content


def artifact(whole: bytes, rng: random.Random) -> bytes:
    """Return a spoiled model file."""
    from safetensors.numpy import load, save

    from medsynth.artifact import _digest

    choice = rng.random()
    if choice < 0.3:
        spot = bytearray(whole)
        for _ in range(rng.choice([1, 1, 5, 50])):
            spot[rng.randrange(len(spot))] = rng.randrange(256)
        return bytes(spot[: rng.randrange(len(spot))] if rng.random() < 0.2 else spot)
    tensors, length = load(whole), int.from_bytes(whole[:8], "little")
    body = json.loads(json.loads(whole[8 : 8 + length])["__metadata__"]["medsynth"])
    if choice < 0.75:
        for _ in range(rng.choice([1, 1, 2, 4])):
            body = spoiled(body, rng)
    else:
        name = rng.choice(sorted(tensors))
        changes: list[Callable[[Any], Any]] = [
            lambda t: t[..., :-1], lambda t: t * np.float32("nan"), lambda t: t * 1e30, lambda t: -t,
            lambda t: t.ravel(), lambda t: t.astype(np.float64), lambda t: np.zeros((0,), np.float32),
            lambda t: t[None], lambda t: t * 0,
        ]  # fmt: skip
        tensors[name] = np.ascontiguousarray(rng.choice(changes)(tensors[name]))
        if rng.random() < 0.2:
            del tensors[name]
    text = json.dumps(body)
    return save(tensors, {"medsynth": text, "sha256": _digest(text, tensors)})


def schema(text: str, rng: random.Random) -> str:
    """Return a spoiled schema."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        lines, choice = text.split("\n"), rng.random()
        k = rng.randrange(len(lines))
        spot = rng.randrange(len(text) + 1)
        if choice < 0.3:
            text = text[:spot] + rng.choice([*WORDS, *"{}[]:,-#&*!|>'\"%@` \n"]) + text[spot:]
        elif choice < 0.5:
            text = text[:spot] + text[spot + rng.choice([1, 1, 5, 30]) :]
        elif choice < 0.7:
            words = lines[k].split(" ")
            words[rng.randrange(len(words))] = rng.choice([*WORDS, str(rng.choice(HOSTILE))[:40]])
            text = "\n".join([*lines[:k], " ".join(words), *lines[k + 1 :]])
        else:
            other = rng.randrange(len(lines))
            lines[k], lines[other] = rng.choice([(lines[other], lines[k]), (lines[k], lines[k]), ("", lines[other])])
            text = "\n".join(lines)
    return text


def tried(case: str, work: Any) -> str:
    """Return how one case ended: read, or the error that refused it. Raise AssertionError for any other end."""
    from medsynth.errors import MedsynthError

    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        work()
    except MedsynthError as error:
        message = str(error)
        assert message and "Traceback" not in message and len(message) < 5000, (case, message)
        return type(error).__name__
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "read"


def fuzz(cases: int, seed: int, folder: Path) -> Counter[str]:
    """Run half of the cases on artifacts and half on schemas. Return how they ended."""
    import medsynth
    from medsynth.io.table import from_frame
    from medsynth.schema.codec import encode

    warnings.simplefilter("ignore")  # A hostile author's numbers cause warnings.
    seen: list[str] = []
    sys.addaudithook(lambda event, args: seen.append(event) if event.startswith(FORBIDDEN) else None)
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(AssertionError("a case hangs")))
    rng, frame = random.Random(seed), table()
    ends: Counter[str] = Counter()
    declared = medsynth.Schema.from_yaml(SCHEMA)
    model = medsynth.fit(frame, epsilon=3.7, schema=declared, rows=60, method="independent", anyway=True)
    whole = model.save(folder / "whole.medsynth", force=True).read_bytes()
    cells, path = from_frame(frame), folder / "spoiled.medsynth"

    def read_artifact() -> None:
        medsynth.sample(medsynth.load(path), 5, seed=0)

    def read_schema(text: str) -> None:
        found = medsynth.Schema.from_yaml(text)
        core = found.core
        assert not set(core.names) - set(found.names)
        if set(core.names) <= set(frame):
            encode(cells, core)
        medsynth.Schema.from_yaml(found.to_yaml())

    seen.clear()
    for k in range(cases):
        if k % 2:
            path.write_bytes(artifact(whole, rng))
            ends["artifact: " + tried(f"artifact {k}", read_artifact)] += 1
        else:
            text = schema(SCHEMA, rng)
            ends["schema: " + tried(text, lambda text=text: read_schema(text))] += 1
        assert not seen, seen
    return ends


def main(words: list[str]) -> None:
    """Run the cases and count how they ended."""
    parser = options("fuzz", __doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        ends = fuzz(given.cases, given.seed, Path(name))
    for end, count in sorted(ends.items()):
        print(f"{count:6} {end}")
    print(f"{given.cases} cases in {time.perf_counter() - start:.0f} s; none ended otherwise, hung or ran anything.")
