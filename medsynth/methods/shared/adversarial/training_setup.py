"""What adversarial methods share: the default's codes and conditional generator, and the encoding that critics read.

An encoded row is the indicators of its bins, column beside column, and of its class; a generated row consists of hard
draws of the same and passes soft gradients. Whatever else differs between these methods, it is not the encoding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ....privacy.accounting.calibration import Plan, Query
from ....privacy.networks import Mlp
from ....privacy.queries.content import LOCAL, MOST_WIDTH, check_size
from ....privacy.queries.measurements import Measurements
from ....privacy.queries.rows import Axes, CellMap, Codes, cells_of, column_of
from ....rng import torch_stream
from ....row_count import COUNTED_ROWS, NoisyTotal, likely_rows
from ....schema import Schema
from ...protocol import Arrays
from ..bins import Bins
from ..cuts import fine_grid, grids
from ..decoder import cleaned_histograms, decoder, decoder_axes, decoder_tensors
from ..labels import CLASSES, ONE_WAY
from ..marginals import cleaned, without_spurious_missing
from ..mixture import mixture_tensors
from .networks import Generator, LatentNetwork

MOST_BINS = 12  # of a number
LATENT_POINTS = 128  # latent points of the generator
TEMPERATURE = 0.7  # of the relaxed draws that pass gradients


def setup_queries(histogram_share: float, class_share: float) -> list[Query]:
    """The measurements that a setup makes, by their shares of the privacy loss."""
    shares = {ONE_WAY: histogram_share, CLASSES: class_share}
    return [Query(label=label, weight=share**-0.5) for label, share in shares.items()]


def by_class(rows: Tensor, classes: int) -> Tensor:
    """Rows in the places of their own classes, (..., width) to (..., classes * width), zero elsewhere.

    Their last `classes` numbers indicate these. A critic that reads them has first weights of its own for each class.
    """
    return (rows[..., -classes:, None] * rows[..., None, :]).flatten(-2)


@dataclass(frozen=True, eq=False)
class Indicators:
    """(rows, columns) codes to indicators of bins, column beside column, and of the class, each row by itself.

    order: the names of the codes' columns; cells: the columns to read; given: the target's name and the map from its
    codes to classes; placed: whether a row stands in the place of its own class. Raises QueryError for more indicators
    than a row may have.
    """

    order: tuple[str, ...]
    cells: Mapping[str, CellMap]
    given: tuple[str, CellMap]
    placed: bool = False
    device: str = field(default="cpu", metadata=LOCAL)

    def __post_init__(self) -> None:
        classes = self.given[1].cells
        width = sum(cells.cells for cells in self.cells.values()) + classes
        check_size(classes, MOST_WIDTH, what="The classes of the target")
        check_size(width * classes if self.placed else width, MOST_WIDTH, what="The indicators of a row")

    def __call__(self, codes: Codes) -> Tensor:
        """(rows, width), or with `placed` (rows, classes * width)."""
        sizes = [cells.cells for cells in self.cells.values()]
        x, rows = torch.zeros(len(codes), sum(sizes) + self.given[1].cells), torch.arange(len(codes))
        for (name, cells), start in zip(self.cells.items(), np.cumsum([0, *sizes]).tolist(), strict=False):
            place = cells_of(cells, codes[:, self.order.index(name)])
            x[rows, torch.from_numpy(place) + start] = 1.0
        label = cells_of(self.given[1], column_of(codes, self.order, self.given[0]))
        x[rows, torch.from_numpy(label) + sum(sizes)] = 1.0
        x = x.to(self.device)
        return by_class(x, self.given[1].cells) if self.placed else x


@dataclass(kw_only=True)
class TrainingSetup:
    """The codes, the generator and its start: every class begins at the columns' own noisy shares.

    `order` are the names of the codes' columns; `rows`: how many there are, by the declared number and noisy counts;
    `prior` (classes,) noisy shares of classes; `given` the target's name and the map from its codes to classes.
    """

    order: tuple[str, ...]
    rows: float
    bins: dict[str, Bins]
    given: tuple[str, CellMap]
    prior: NDArray[np.float64]
    histograms: dict[str, NDArray[np.float64]]
    generator: Generator
    device: str

    @classmethod
    def measure(cls, schema: Schema, vault: Measurements, plan: Plan, device: str) -> TrainingSetup:
        """Measure one-way marginals and the class marginal; the rest follows from these in public."""
        columns = [name for name in schema.names if name != schema.target]
        axes: dict[str, Axes] = {name: [(name, fine_grid(schema.columns[name]))] for name in columns}
        many = grids(schema, MOST_BINS)
        axes |= decoder_axes(schema, many)
        noisy = vault.measure_marginals(ONE_WAY, axes)
        fine = {key: counts for key, counts in noisy.items() if key in many or key not in schema.columns}
        std = plan.noise(ONE_WAY) * math.sqrt(len(axes))
        totals = [NoisyTotal.of(noisy[name], std) for name in axes if name in schema.columns]
        histograms = cleaned_histograms(schema, fine, likely_rows(plan.rows, totals, plan.rows_std), std)
        bins, condition = decoder(schema, histograms, plan.rows, MOST_BINS)
        given = (schema.target or "", condition)
        counts = vault.measure_marginals(CLASSES, {"class": [given]})["class"]
        rows = likely_rows(plan.rows, [*totals, NoisyTotal.of(counts, plan.noise(CLASSES))], plan.rows_std)
        counts = without_spurious_missing(counts, schema.columns.get(schema.target or ""), plan.noise(CLASSES))
        base = {}
        for name in columns:
            share = histograms[name] if name in histograms else cleaned(noisy[name], rows)
            mass = np.bincount(bins[name].place, share, bins[name].cells)
            base[name] = np.tile(np.log(mass + 1e-9), (condition.cells, 1))
        return cls(
            order=schema.names,
            rows=rows,
            bins=bins,
            given=given,
            prior=cleaned(counts, rows),
            histograms=histograms,
            generator=Generator(base, device),
            device=device,
        )

    def add_network(self, seed: int | None) -> Mlp:
        """Give the generator latent points and a network that adds nothing yet. Returns the network, to be trained."""
        bins = self.width - self.classes
        made = LatentNetwork(LATENT_POINTS, self.classes, bins, torch_stream(seed, "init"), self.device)
        self.generator.network = made
        return made.net

    @property
    def encode(self) -> Indicators:
        """The map from codes to what a critic reads."""
        spans = self.generator.spans
        return Indicators(self.order, {name: self.bins[name] for name in spans}, self.given, device=self.device)

    @property
    def classes(self) -> int:
        """How many classes rows are conditioned on."""
        return self.given[1].cells

    @property
    def width(self) -> int:
        """Indicators of a row that a critic reads, those of its class included."""
        return self.generator.base.shape[1] + self.classes

    def by_class(self, rows: Tensor) -> Tensor:
        """Rows in the places of their own classes, (..., width) to (..., classes * width), zero elsewhere."""
        return by_class(rows, self.classes)

    def labels(self, count: int, latent: torch.Generator, *, even: bool = False) -> Tensor:
        """Classes for `count` generated rows, by the noisy shares or `even`: (count,)."""
        if even:
            return torch.randint(self.classes, (count,), generator=latent, device=self.device)
        shares = torch.tensor(self.prior, dtype=torch.float32, device=self.device)
        return torch.multinomial(shares, count, replacement=True, generator=latent)

    def fakes(self, labels: Tensor, latent: torch.Generator, *, relaxed: bool = True) -> Tensor:
        """Generated rows of those classes, (rows, width): a latent point each, then hard draws with soft gradients.

        Gumbel noise and the relaxed draw's gradient (Jang, Gu, Poole 2017), which is nearly zero at bins that were not
        drawn; or, not `relaxed`, the gradient of the bins' chances (Bengio, Leonard, Courville 2013), which
        depends on all bins at once: what a critic behind noise needs.
        """
        logits = self.generator.logits()
        chosen = torch.randint(len(logits), labels.shape, generator=latent, device=self.device)
        own = logits[chosen, labels]
        uniform = torch.rand(own.shape, generator=latent, device=self.device).clamp(1e-6, 1 - 1e-6)
        noisy = own - torch.log(-torch.log(uniform))
        parts = []
        for span in self.generator.spans.values():
            soft = torch.softmax(noisy[:, span] / TEMPERATURE if relaxed else own[:, span], 1)
            hard = functional.one_hot(noisy[:, span].argmax(1), soft.shape[1]).to(soft)
            parts.append(hard + soft - soft.detach())
        return torch.cat([*parts, functional.one_hot(labels, self.classes).to(own)], 1)

    def pool(self, count: int, latent: torch.Generator) -> Tensor:
        """`count` rows of each class as the generator draws them now, to train against: (classes, count, width)."""
        labels = torch.arange(self.classes, device=self.device).repeat_interleave(count)
        with torch.no_grad():
            return self.fakes(labels, latent).reshape(self.classes, count, -1)

    def tensors(self) -> Arrays:
        """All that `sampler.generate` needs."""
        log_shares = self.generator.base.detach().double().cpu().numpy()
        base = {name: log_shares[:, span] for name, span in self.generator.spans.items()}
        mixture = mixture_tensors(base, self.generator.residuals())
        kept = decoder_tensors(self.histograms, self.bins, list(base))
        counted = np.array([self.rows], np.float32)
        return {**mixture, **kept, "prior": self.prior.astype(np.float32), COUNTED_ROWS: counted}
