"""Queries that sites derive: valid for whatever numbers a server sends, and the same bytes on every machine."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from three_sites import SCHEMA, Federation, table

from medsynth.errors import MedsynthError, QueryError
from medsynth.federated.derivation import Derived, ShardsAsked, derived, digest_of, numbers_of, with_numbers
from medsynth.federated.study import Study, study_of
from medsynth.io.table import from_frame
from medsynth.methods.adversarial import CRITIC_GRADIENTS
from medsynth.methods.dp_gan import QUANTILES
from medsynth.mixture import grids
from medsynth.privacy.queries.measurements import may_answer
from medsynth.privacy.queries.rows import CodedRows
from medsynth.schema.codec import encode

CONTENT: dict[str, Any] = {"name": "trial", "schema": SCHEMA, "epsilon": 3.7, "rows": 300, "sites": ["east", "north"]}
SEEDS = range(settings.default.max_examples // 8)  # a push tries a quarter of a night's


def study(method: str, **more: Any) -> Study:
    return study_of({**CONTENT, "method": method, **more})


def shapes(query: Any) -> list[tuple[int, ...]]:
    names = tuple(SCHEMA["columns"])
    none = CodedRows(np.zeros((0, len(names)), np.int32), names, np.zeros((0, 2), np.uint64))
    return [array.shape for array in query.finished(query.exact(none))]


def fit(made: Study, numbers: Callable[[tuple[int, ...]], Any], seed: int = 5) -> Iterator[Derived]:
    """What a fit measures whose releases are such numbers, up to the steps of a network."""
    releases = list[list[Any]]()
    for _ in made.plan().events:
        found = derived(made, made.plan(), seed, releases)
        yield found
        if isinstance(found.query, ShardsAsked) or numbers_of(found.query):
            return
        releases.append([numbers(shape) for shape in shapes(found.query)])


def hostile(seed: int) -> Callable[[tuple[int, ...]], Any]:
    """Numbers of some size around some level, of any shape."""
    rng = np.random.default_rng(seed)
    scale, level = 10.0 ** rng.integers(-3, 12), rng.choice([0.0, 10.0, -1e4, 1e9])
    return lambda shape: rng.normal(size=shape) * scale + level


@pytest.mark.nightly_for("mixture", "dp-cgan")
@pytest.mark.parametrize("method", ["mixture", "independent", "dp-cgan"])
def test_whatever_was_released_a_row_moves_an_answer_by_no_more_than_is_charged(method: str) -> None:
    """Releases of hostile numbers: what is derived from them is a known query, or an error before any row is read."""
    made = study(method)
    core = made.table_schema.core
    codes = encode(from_frame(table(40, 1)), core)
    draws = np.zeros((len(codes), 0), np.uint64)
    derivations = 0
    for seed in SEEDS:
        try:
            for found in fit(made, hostile(seed), seed):
                assert may_answer(found.query) and not isinstance(found.query, ShardsAsked)
                if numbers_of(found.query):
                    continue
                query: Any = found.query
                derivations += 1
                every, fewer = CodedRows(codes, core.names, draws), CodedRows(codes[:-1], core.names, draws[:-1])
                pairs = zip(query.finished(query.exact(every)), query.finished(query.exact(fewer)), strict=True)
                scales = query.scales(query.sensitivity(None))
                moved = [(a - b) * own.unit / own.std for (a, b), own in zip(pairs, scales, strict=True)]
                assert np.sqrt(sum(float((gap**2).sum()) for gap in moved)) <= 1 + 1e-9
        except QueryError:
            continue
    assert derivations > len(SEEDS)


def refusal(own: Derived, numbers: list[Any]) -> str:
    """The words of our own refusal of such numbers. Other errors, of whoever would use them, are none."""
    try:
        with_numbers(own, own.label, numbers)
    except QueryError as error:
        return str(error)
    except Exception as error:
        return type(error).__name__
    return ""


@pytest.mark.matrix
@pytest.mark.parametrize("method", ["dp-cgan", "dp-gan"])
def test_numbers_of_a_step_have_the_shapes_of_the_studys_network(method: str, quick: None) -> None:
    *_, own = fit(study(method), lambda shape: np.full(shape, 10.0))
    assert not isinstance(own.query, ShardsAsked)
    numbers = numbers_of(own.query)
    good = with_numbers(own, own.label, [array + 1 if array.dtype == np.float32 else array for array in numbers])
    assert type(good) is type(own.query) and digest_of(good) != digest_of(own.query)
    for k, array in enumerate(numbers):
        for wrong in (array[:-1], array[None], array.astype(np.complex64), array * np.nan):
            assert "do not have the shapes" in refusal(own, [*numbers[:k], wrong, *numbers[k + 1 :]])
    for few in (numbers[:-1], [*numbers, numbers[0]]):
        with pytest.raises(QueryError, match="do not have the shapes"):
            with_numbers(own, own.label, few)
    for label in ("class marginal", "", QUANTILES if method == "dp-cgan" else "one-way marginals"):
        with pytest.raises(QueryError, match="another measurement next"):
            with_numbers(own, label, numbers)
    if method == "dp-gan":
        for k, wrong in ((-1, 0 * numbers[-1]), (-2, numbers[-2] + 99)):
            with pytest.raises(MedsynthError):
                with_numbers(own, own.label, [*numbers[:k], wrong, *numbers[len(numbers) + k + 1 :]])
        kinds = {type(with_numbers(own, label, numbers)).__name__ for label in (CRITIC_GRADIENTS, QUANTILES)}
        assert kinds == {"PairGradientSum", "NormsBelow"}


def test_releases_are_of_the_studys_measurements() -> None:
    made = study("independent")
    first, second, *_ = fit(made, lambda shape: np.full(shape, 10.0))
    good = [np.full(shape, 10.0) for shape in shapes(first.query)]
    assert derived(made, made.plan(), 5, [good]).label == second.label
    for wrong, says in (
        ([array[:-1] for array in good], "shapes"), (good[:-1], "shapes"),
        ([array * np.inf for array in good], "finite"), ([array * 1e30 for array in good], "too large"),
    ):  # fmt: skip
        with np.errstate(all="ignore"), pytest.raises(QueryError, match=says):
            derived(made, made.plan(), 5, [wrong])
    with pytest.raises(QueryError, match="more earlier releases"):
        derived(made, made.plan(), 5, [good] * 65)


def counts(shape: tuple[int, ...]) -> Any:
    """Noisy counts, the same each time."""
    rng = np.random.default_rng(int(np.prod(shape)))
    return (
        np.round(1024 * (300 * rng.dirichlet(np.ones(int(np.prod(shape)))) + rng.normal(size=int(np.prod(shape)))))
        / 1024
    )


def digests(method: str) -> list[str]:
    """Those of all queries of a fit whose releases look like counts."""
    found = list[str]()
    for own in fit(study(method), lambda shape: counts(shape).reshape(shape)):
        assert not isinstance(own.query, ShardsAsked)
        numbers = [np.zeros_like(array) for array in numbers_of(own.query)]  # a server says these: here always the same
        found.append(digest_of(with_numbers(own, own.label, numbers)))
    return found


def test_no_query_depends_on_the_last_bits_of_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells follow from sums of released counts. What is smoothed by an optimiser says where values lie in a bin."""
    before = digests("mixture")
    smoothed: Any = vars(grids)["mean_over_priors"]

    def otherwise(*given: Any) -> Any:
        found = smoothed(*given)
        return found * (1 + 1e-3 * np.arange(len(found)) % 7)

    monkeypatch.setattr(grids, "mean_over_priors", otherwise)
    assert digests("mixture") == before and len(before) == 6


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["mixture", "dp-cgan"])
def test_queries_are_the_same_on_a_machine_with_other_instructions(method: str) -> None:
    """Without vector instructions, with another kernel of linear algebra, on two threads."""
    other = {
        "OMP_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Nehalem", "ATEN_CPU_CAPABILITY": "default",
        "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX",
    }  # fmt: skip
    here = os.path.dirname(__file__)
    code = f"import sys; sys.path[:0] = {sys.path!r}; sys.path.append({here!r})\nimport test_derivation as t\n"
    code += f"print(*t.digests({method!r}))"
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, **other},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == digests(method)


def test_no_query_crosses_the_wire(federation: Callable[..., Federation]) -> None:
    """Heads have the keys of their kind, bodies arrays of numbers; nothing of a query is in them but its digest."""
    from test_federated_wire import recorded

    from medsynth.federated.transport import KEYS, arrays_of, unpacked

    made = federation(trust="none").start()
    asked = 0
    for _, message, _ in recorded(made).messages:
        head, body = unpacked(message)
        assert set(head) == KEYS[head["kind"]]
        if head["kind"] == "measure":
            asked += 1
            assert all(array.dtype == np.float64 for array in arrays_of(body)) and len(head["query"]) == 64
    assert asked == 3 * len(made.study.plan().events)
