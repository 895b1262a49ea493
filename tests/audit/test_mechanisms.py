"""The audit of mechanisms proves nearly all that is claimed and never more; planted faults are convicted."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from medsynth.audit.mechanisms import CASES, NAMES, audit_mechanism, audit_names
from medsynth.privacy import clipping, partition_selection, shards, vault
from medsynth.privacy.noise import noised
from medsynth.privacy.queries import gradients, query, tables
from medsynth.rng import SeededEntropy, coins

CONFIDENCE = 0.999
THOROUGH = ("marginals", "distances", "rows per patient")  # a trial of these takes a moment
LIKE_OTHERS = (
    "norms below a bound", "lot's norms below a bound", "kinds, levels and formats", "gradient sum, patients",
    "lot's gradient sum, patients", "lot's microbatch gradients", "upstream gradient, joint",
    "upstream gradient in order", "sum of upstream gradients", "teachers' gradient votes", "marginals, patients",
    "marginals, averaged rows",
)  # fmt: skip
SLOW_NAMES = ("schema: target levels",)
TRIALS = 800
Patch = pytest.MonkeyPatch


@pytest.mark.statistical
@pytest.mark.nightly_for(*THOROUGH, *LIKE_OTHERS)
@pytest.mark.parametrize("name", CASES)
def test_nearly_all_of_the_claim_is_proven_and_never_more(name: str) -> None:
    """The seed is fixed. 30,000 trials prove 95 % of a claim; fewer prove less, and less of what is sampled."""
    case = CASES[name]
    trials = 30_000 if name in THOROUGH else TRIALS // case.slow
    reach = 0.95 if name in THOROUGH else 0.7 if case.rate == case.slow == 1 else 0.25
    found = audit_mechanism(case, trials, CONFIDENCE, SeededEntropy(1))
    assert found.proven_mu is not None and found.claimed_mu == case.mu
    assert reach * case.mu <= found.proven_mu <= case.mu and not found.refutes
    assert found.claimed_epsilon is not None and found.proven_epsilon is not None
    assert 0 < found.proven_epsilon <= found.claimed_epsilon


@pytest.mark.statistical
@pytest.mark.nightly_for(*SLOW_NAMES)
@pytest.mark.parametrize("label", NAMES)
def test_names_of_one_row_are_released_nearly_as_often_as_is_charged(label: str) -> None:
    """With a hundred trials the bound lay between 0.02 and 0.12, by the seed."""
    found = audit_names(label, TRIALS, CONFIDENCE, SeededEntropy(3))
    assert found.proven_chance is not None and 0.1 < found.proven_chance <= 0.2 and not found.refutes


def no_noise(patch: Patch) -> None:
    for module in (query, shards, partition_selection):
        patch.setattr(module, "noised", lambda values, std, entropy: values)


def halved_noise(patch: Patch) -> None:
    for module in (query, shards, partition_selection):
        patch.setattr(module, "noised", lambda values, std, entropy: noised(values, std / 2, entropy))


def constant_noise(patch: Patch) -> None:
    """The same noise in every release, as from entropy that repeats itself."""
    patch.setattr(query, "noised", lambda values, std, entropy: noised(values, std, SeededEntropy(3)))


def no_clipping(patch: Patch) -> None:
    patch.setattr(clipping, "factors", lambda norms, bound: norms * 0 + 1)


def clipped_after_the_sum(patch: Patch) -> None:
    def clipped(critic: Any, loss: Any, rows: Any, bound: float, *_: Any) -> clipping.ClippedSum:
        total, unit = clipping.clipped_gradient_sum(critic, loss, rows, 1e3).tensors, clipping.units(bound)[0]
        norm = math.sqrt(sum(float(t.square().sum()) for t in total))
        share = min(1.0, bound / max(norm, 1e-30)) / unit
        return clipping.ClippedSum(tuple((t.double() * share).long() for t in total), unit, bound)

    patch.setattr(gradients, "clipped_gradient_sum", clipped)


def no_root_of_tables(patch: Patch) -> None:
    patch.setattr(tables, "math", SimpleNamespace(sqrt=lambda count: 1.0, hypot=lambda *weights: 1.0, prod=math.prod))


def parts_of_a_row_for_rows(patch: Patch) -> None:
    """Centred tables, which are counted in parts of a row, with the noise of tables that are counted in rows."""
    true = tables.Marginals.scales

    def scales(self: Any, std: float) -> Any:
        return [query.NoiseScale(std * scale.unit, scale.unit) for scale in true(self, std / self.weights["a"])]

    patch.setattr(tables.Marginals, "scales", scales)


def no_rows_of_a_patient(patch: Patch) -> None:
    true = vault.Vault.__init__

    def born(self: Any, *arguments: Any, **options: Any) -> None:
        true(self, *arguments, **options)
        self._max_rows = 1

    patch.setattr(vault.Vault, "__init__", born)


def microbatches_at_one_norm(patch: Patch) -> None:
    patch.setattr(gradients.GradientSum, "sensitivity", lambda self, max_rows: self.bound)


def groups_for_free(patch: Patch) -> None:
    patch.setattr(clipping.Groups, "sensitivity", 1.0)


def whole_counts_of_norms(patch: Patch) -> None:
    true = clipping.halves_below
    patch.setattr(gradients, "halves_below", lambda *arguments: 2 * true(*arguments))


def every_row_in_each_lot(patch: Patch) -> None:
    patch.setattr(vault, "coins", lambda entropy, count, rate: coins(entropy, count, 1.0))


def patients_join_lots_row_by_row(patch: Patch) -> None:
    def joined(self: Any, rate: float) -> Any:
        return [coins(self._Vault__releases.entropy, part.count, rate) for part in self._Vault__parts]

    patch.setattr(vault.Vault, "_Vault__joined", joined)


def one_shard_for_ever(patch: Patch) -> None:
    patch.setattr(shards.Shards, "_Shards__sample_shard", lambda self: 0)


def upstream_sensitivity_of_one_row(patch: Patch) -> None:
    patch.setattr(shards, "math", SimpleNamespace(**{**vars(math), "sqrt": lambda count: 1.0}))


def no_root_of_columns(patch: Patch) -> None:
    patch.setattr(partition_selection, "math", SimpleNamespace(sqrt=lambda count: 1.0))


def no_upstream_clipping(patch: Patch) -> None:
    patch.setattr(shards, "clipped", lambda rows, bound, joint: (10 * rows.double() / shards.unit_of(bound)).long())


def halves_for_whole_votes(patch: Patch) -> None:
    true = shards.Shards._Shards__halves  # type: ignore[attr-defined]
    patch.setattr(shards.Shards, "_Shards__halves", lambda self, fake: 3 * true(self, fake))


FAULTS: list[tuple[Callable[[Patch], None], list[str]]] = [
    (no_noise, ["marginals", "distances", "second moments", "gradient sum", "norms below a bound"]),
    (no_noise, ["lot's gradient sum", "upstream gradient", "levels of a hierarchy", "kinds, levels and formats"]),
    (halved_noise, ["marginals", "second moments", "rows per patient", "gradient sum", "pair gradients in groups"]),
    (halved_noise, ["lot's gradient sum", "upstream gradient", "kinds, levels and formats"]),
    (constant_noise, ["marginals", "gradient sum", "distances"]),
    (no_clipping, ["gradient sum", "gradient sum, patients"]),
    (clipped_after_the_sum, ["gradient sum"]),
    (no_root_of_tables, ["marginals", "marginals, centred", "distances"]),
    (parts_of_a_row_for_rows, ["marginals, centred"]),
    (no_rows_of_a_patient, ["marginals, patients", "gradient sum, patients"]),
    (microbatches_at_one_norm, ["microbatch gradient sum", "lot's microbatch gradients"]),
    (groups_for_free, ["pair gradients in groups", "norms below a bound"]),
    (whole_counts_of_norms, ["norms below a bound"]),
    (every_row_in_each_lot, ["lot's gradient sum", "lot's norms below a bound"]),
    (patients_join_lots_row_by_row, ["lot's gradient sum, patients"]),
    (one_shard_for_ever, ["upstream gradient"]),
    (upstream_sensitivity_of_one_row, ["upstream gradient", "upstream gradient in order"]),
    (upstream_sensitivity_of_one_row, ["teachers' votes", "teachers' gradient votes"]),
    (halves_for_whole_votes, ["teachers' votes"]),
    (no_upstream_clipping, ["upstream gradient, joint"]),
    (no_root_of_columns, ["kinds, levels and formats"]),
]


PLANTED = {f"{fault.__name__}-{name}": (fault, name) for fault, names in FAULTS for name in names}
SLOW_FAULTS = [f"{fault}-kinds, levels and formats" for fault in ("halved_noise", "no_noise", "no_root_of_columns")]
SLOW_FAULTS += [
    "every_row_in_each_lot-lot's norms below a bound",
    "microbatches_at_one_norm-lot's microbatch gradients",
    "patients_join_lots_row_by_row-lot's gradient sum, patients",
    "halved_noise-lot's gradient sum",
    "no_noise-lot's gradient sum",
    "no_noise-norms below a bound",
    "no_noise-upstream gradient",
    "groups_for_free-pair gradients in groups",
    "no_rows_of_a_patient-gradient sum, patients",
    "upstream_sensitivity_of_one_row-teachers' gradient votes",
    "halved_noise-pair gradients in groups",
    "upstream_sensitivity_of_one_row-upstream gradient",
]


@pytest.mark.matrix
@pytest.mark.nightly_for(*SLOW_FAULTS)
@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_is_convicted(planted: str, monkeypatch: Patch) -> None:
    fault, name = PLANTED[planted]
    fault(monkeypatch)
    sampled = 1_500 if planted in SLOW_FAULTS else 800  # of what is sampled a trial tells less
    trials = 300 if CASES[name].rate == 1 else sampled
    assert audit_mechanism(CASES[name], trials, CONFIDENCE, SeededEntropy(2)).refutes


def low_threshold_of_names(patch: Patch) -> None:
    patch.setattr(partition_selection, "rarely_exceeded", lambda std, chance: 0.0)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", [low_threshold_of_names, no_root_of_columns])
def test_names_that_are_released_too_often_are_convicted(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    assert audit_names(NAMES[1], 80, CONFIDENCE, SeededEntropy(4)).refutes == (fault is low_threshold_of_names)
