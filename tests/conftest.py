"""Shared fixtures: small tables, a quick fit, and the real table where it is to be had."""

import functools
import hashlib
import os
import shutil
import signal
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import quick_methods
import small_clinic
from filelock import FileLock
from hypothesis import HealthCheck, settings

from medsynth import rng as randomness
from medsynth.privacy.accounting import accountant
from medsynth.schema import Schema

ROOT = Path(__file__).parent.parent
# On a busy machine an example takes as long as it takes: no property fails, or is given up, for its time.
# A push tries a quarter of a night's examples (`--hypothesis-profile night`).
settings.register_profile("night", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("push", settings.get_profile("night"), max_examples=25)
settings.load_profile("push")
# A script that starts tests in the background leaves Ctrl-C ignored, and so would the commands that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


# The tests of a session by id, including those that are not run: whether each is nightly.
COLLECTED = pytest.StashKey[dict[str, bool]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as nightly: statistical tests, the parameters that `nightly_for` names, and nine tenths of each `matrix`.

    The tenth that stays is the first case of each function and the cases whose id has a CRC-32 divisible by ten.
    """
    begun = set[str]()
    for item in items:
        slow = [name for marker in item.iter_markers("nightly_for") for name in marker.args]
        if isinstance(item, pytest.Function) and slow and item.callspec.id in slow:
            item.add_marker("nightly")
        if item.get_closest_marker("statistical"):
            item.add_marker("nightly")
        function = item.nodeid.split("[")[0]
        if item.get_closest_marker("matrix") and function in begun and zlib.crc32(item.nodeid.encode()) % 10:
            item.add_marker("nightly")
        begun.add(function)
    config.stash[COLLECTED] = {item.nodeid: item.get_closest_marker("nightly") is not None for item in items}


@pytest.fixture(scope="session")
def collected(pytestconfig: pytest.Config) -> dict[str, bool]:
    return pytestconfig.stash[COLLECTED]


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session, the same one for all workers."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def once(shared_folder: Path) -> Iterator[Callable[[str, Callable[[Path], object]], Path]]:
    """Makes a folder of a name once in a session, for all tests and workers. Whoever would write there copies it.

    That nobody wrote there is checked when the session ends.
    """
    before = dict[Path, dict[Path, tuple[int, int]]]()

    def files(folder: Path) -> dict[Path, tuple[int, int]]:
        found = {path: path.stat() for path in folder.rglob("*")}
        return {path: (facts.st_mtime_ns, facts.st_size) for path, facts in found.items() if path.is_file()}

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder = shared_folder / name
        with FileLock(f"{folder}.lock"):
            if not folder.exists():
                part = Path(f"{folder}.part")  # what a fit that failed left here is made anew
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir()
                make(part)
                part.rename(folder)
        before.setdefault(folder, files(folder))
        return folder

    yield made
    assert all(files(folder) == known for folder, known in before.items()), "a test wrote into a shared folder"


@pytest.fixture(autouse=True, scope="session")
def composed_once(shared_folder: Path) -> Iterator[None]:
    """Compose the same events once in a session, for all tests and workers: plans of dp-gan take some ten seconds.

    The accountant itself is cached, by all its arguments, so a test that replaces it replaces the cache as well.
    And Opacus' bounds on sums of losses try whole orders alone: nine tenths of its time are the others.
    """
    true_accountants = accountant.accountants
    changed = set[str]()

    def accountants() -> Any:
        found = true_accountants()
        if hasattr(found, "rdp") and not changed:
            changed.add("orders")
            patch.setattr(found.rdp.RDPAccountant, "DEFAULT_ALPHAS", [*range(2, 64)])
        return found

    def cached(name: str, true: Callable[..., float]) -> Callable[..., float]:
        @functools.wraps(true)
        def run(*args: Any, **kwargs: Any) -> float:
            args = tuple(list(arg) if isinstance(arg, Iterable) else arg for arg in args)
            key = hashlib.sha256(repr((name, args, kwargs)).encode()).hexdigest()
            path = shared_folder / f"epsilon-{key}"
            if path.exists():
                return float(path.read_text())
            value = true(*args, **kwargs)
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(repr(float(value)))
            part.replace(path)  # whole or not at all: another worker may be reading
            return value

        return run

    with pytest.MonkeyPatch.context() as patch:
        for name in ("_prv", "_rdp", "cross_check"):
            patch.setattr(accountant, name, cached(name, getattr(accountant, name)))
        patch.setattr(accountant, "accountants", accountants)
        yield


@pytest.fixture(autouse=True, scope="session")
def commands_once() -> Iterator[None]:
    """Build the commands once per process: each call of typer's runner builds all of them, in some thirty ms."""
    from typer.main import get_command

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", functools.cache(get_command))
        yield


@pytest.fixture(scope="session")
def cohort() -> pd.DataFrame:
    return small_clinic.cohort(300, 5)


@pytest.fixture(scope="session")
def clinic() -> Schema:
    return small_clinic.schema()


@pytest.fixture
def other_defaults(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives a method, or its preset, other defaults: the registry offers it with a `Config` derived from its own."""
    return functools.partial(quick_methods.offer, monkeypatch)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make fits quick: few lots, steps, shards, priors, and simulated rows of patients over time."""
    quick_methods.offer_quick(monkeypatch)


@pytest.fixture(scope="session")
def with_few_trees() -> Callable[[pytest.MonkeyPatch], None]:
    """Makes reports quick, where it is not their figures that are tested.

    Sixty resamples, ten trees per forest, one permutation and 200 guesses.
    """
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting

    from medsynth.report.data import statistics
    from medsynth.report.sections import criteria, fidelity

    def few(patch: pytest.MonkeyPatch) -> None:
        for module, name, value in (
            (statistics, "DRAWS", 60), (fidelity, "REPEATS", 1), (criteria, "GUESSES", 200),
        ):  # fmt: skip
            patch.setattr(module, name, value)
        for family, size in ((BaseForest, "n_estimators"), (BaseHistGradientBoosting, "max_iter")):

            def fit(self: Any, *args: Any, _true: Any = family.fit, _size: str = size, **kwargs: Any) -> Any:
                setattr(self, _size, min(getattr(self, _size), 10))
                return _true(self, *args, **kwargs)

            patch.setattr(family, "fit", fit)

    return few


@pytest.fixture
def few_trees(with_few_trees: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make reports quick, also without the second accountant: it composes many measurements for seconds."""
    with_few_trees(monkeypatch)
    monkeypatch.setattr("medsynth.report.sections.claim._by_pld", lambda events, delta: None)


@pytest.fixture
def all_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo `with_few_trees` for a test of figures: as many trees as a report has."""
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting

    for family in (BaseForest, BaseHistGradientBoosting):
        fit = family.fit
        while "_true" in (getattr(fit, "__kwdefaults__", None) or {}):
            fit = fit.__kwdefaults__["_true"]
        monkeypatch.setattr(family, "fit", fit)


class SeededExactEntropy(randomness.NoNoise):
    """What `no_dp` takes, with lots that repeat."""

    def __init__(self) -> None:
        self._seeded = randomness.SeededEntropy(0)

    def bytes(self, count: int) -> bytes:
        return self._seeded.bytes(count)


@pytest.fixture
def seeded_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fix the secret randomness of every fit and hold-out, with noise and without: a given `seed` fixes the rest.

    It is the test's own `monkeypatch`, so that a test that patches the same function again leaves the true one.
    """
    monkeypatch.setattr(randomness, "system_entropy", lambda: randomness.SeededEntropy(0))
    monkeypatch.setattr(randomness, "NoNoise", SeededExactEntropy)


class EntropyByCall:
    """Test entropy: the k-th call gives the same bytes whatever was drawn before."""

    source = "TEST ONLY: seeded, no privacy"

    def __init__(self) -> None:
        self.calls = 0

    def bytes(self, count: int) -> bytes:
        self.calls += 1
        return np.random.Generator(np.random.Philox(self.calls)).bytes(count)


@pytest.fixture
def fixed_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of different length meet the same noise."""
    monkeypatch.setattr(randomness, "system_entropy", EntropyByCall)


@pytest.fixture
def patients(tmp_path: Path, cohort: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Path:
    """patients.csv and its schema in an empty folder, which becomes the current one."""
    monkeypatch.chdir(tmp_path)
    return write_patients(tmp_path, cohort)


@pytest.fixture
def patients_of_few_columns(tmp_path: Path, cohort: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same with four columns: a fit takes a third of the time."""
    monkeypatch.chdir(tmp_path)
    return write_patients(tmp_path, cohort[list(small_clinic.FEW)])


def write_patients(folder: Path, cohort: pd.DataFrame) -> Path:
    (folder / "patients.schema.yaml").write_text(small_clinic.schema(tuple(cohort)).to_yaml())
    cohort.to_csv(folder / "patients.csv", index=False)
    return folder / "patients.csv"


@pytest.fixture(scope="session")
def fitted_clinic(once: Callable[[str, Callable[[Path], object]], Path], cohort: pd.DataFrame) -> Path:
    """The folder of patients.csv, its schema and patients.medsynth: a quick fit by the command. Read-only."""

    def make(folder: Path) -> None:
        from medsynth_cli.main import app
        from typer.testing import CliRunner

        path = write_patients(folder, cohort)
        with pytest.MonkeyPatch.context() as patch:
            quick_methods.offer_quick(patch)
            patch.chdir(folder)
            done = CliRunner().invoke(app, ["fit", path.name, "--epsilon", "3.7", "--rows", "300"])
        assert done.exit_code == 0, done.stderr

    return once("fitted_clinic", make)


@pytest.fixture
def fitted_patients(fitted_clinic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what `fitted_clinic` holds, in the current folder: the path of patients.csv."""
    shutil.copytree(fitted_clinic, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "patients.csv"


def thyroid_folder() -> Path | None:
    places = [os.environ.get("MEDSYNTH_THYROID"), ROOT.parent / "shared" / "data" / "thyroid"]
    return next((Path(p) for p in places if p and (Path(p) / "ann-train.data").exists()), None)


@pytest.fixture(scope="session")
def thyroid() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The real ann-thyroid table, train and test."""
    folder = thyroid_folder()
    if folder is None:
        pytest.skip("no ann-thyroid files: set MEDSYNTH_THYROID to their folder")
    names = list(Schema.load(ROOT / "schemas" / "thyroid.yaml").names)
    read = [
        pd.read_csv(folder / f"ann-{part}.data", sep=r"\s+", header=None, names=names) for part in ("train", "test")
    ]
    return read[0], read[1]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def some_sections() -> Iterator[Callable[..., None]]:
    """Takes the names of sections that stay. All are there afterwards, in their order, which is that of the page."""
    from medsynth.report.sections.registry import SECTIONS

    before = dict(SECTIONS)

    def only(*names: str) -> None:
        for name in SECTIONS.keys() - set(names):
            del SECTIONS[name]

    yield only
    SECTIONS.clear()
    SECTIONS.update(before)
