"""The thyroid study's DP-CGAN: its networks and hyper-parameters, with the corrections that its claim needs.

Source: Carvalho et al. (the thyroid study), after Torkzadehmahani, Kairouz, Paten 2019, algorithm 1. Kept: a generator
103-128-21 with tanh outputs, a critic 24-128-1 with ReLU, B = 32, C = 1.1, critic SGD from 0.15 to 0.052, generator
Adam 1e-3, and 5894 steps. Real and fake gradients are clipped separately and added. Corrected: lots are Poisson. Labels
of generated rows come from noised class counts, never from the real batch. Columns are scaled by public bounds and the
schema's scale, not by their maximum. Sums are divided by the expected lot. The noise multiplier is calibrated to the
whole budget.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ..arrays import Arrays, Codes, Floats
from ..errors import NEEDS_SCHEMA, SchemaError
from ..privacy.accounting.calibration import Charge, Plan
from ..privacy.networks import Mlp
from ..privacy.queries.content import LOCAL, MOST_WIDTH, STEPS, check_numbers, check_size, require
from ..privacy.queries.measurements import Measurements
from ..rng import numpy_stream, torch_stream
from ..schema import Schema
from ..schema.columns.column import Column
from ..schema.columns.grid import MOST_CODES, grid
from .adversarial import CRITIC_GRADIENTS, clipped_sum, generated_loss, real_loss
from .marginals import CLASSES, cleaned
from .random_features import restore
from .registry import Count, Method, MethodConfig, Positive, Progress, Rate

CLASS_WEIGHT = 5.0  # relative noise of the class marginal: about a hundredth of the privacy loss


class ThyroidConfig(MethodConfig):
    """The study's settings."""

    lot: Count = Field(default=32, description="expected rows per lot")
    steps: Count = Field(default=5894, description="noisy gradient sums of the critic")
    clip: Positive = Field(default=1.1, description="clipping norm of a row's gradient")
    microbatches: int | None = Field(default=None, ge=1, description="groups per lot that are clipped; by default rows")
    latent: Count = Field(default=100, description="latent dimensions of the generator")
    width: Count = Field(default=128, description="hidden units of each network")
    critic_rate: tuple[Rate, Rate] = Field(default=(0.15, 0.052), description="critic's first and last learning rate")
    generator_rate: Rate = Field(default=1e-3, description="generator's learning rate")

    def sampling_rate(self, rows: int) -> float:
        """Return the Poisson sampling rate for a declared number of rows."""
        return min(1.0, self.lot / rows)


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """A map from codes, (rows, columns), to one number per column and the class as one-hot, (rows, features + classes).

    indices: the columns. numbers: the number of each code of a column, computed once, so that a row never depends on
    other rows. target: the target's column, with this number of `classes`. A larger code counts as the last class.
    Raises QueryError unless each column has a table of finite numbers.
    """

    indices: tuple[int, ...]
    numbers: tuple[Floats, ...]
    target: int
    classes: int
    device: str = field(default="cpu", metadata=LOCAL)

    def __post_init__(self) -> None:
        known = len(self.indices) == len(self.numbers) > 0 and min(*self.indices, self.target, 0) == 0
        require(known, "Each scaled column needs a place and a table of numbers.")
        check_size(self.classes, MOST_WIDTH, what="The classes of the target")
        for own in self.numbers:
            check_size(own.size, MOST_CODES, what="The numbers of a column")
            check_numbers(own, (own.size,), np.float64, what="The numbers of a column")

    def __call__(self, codes: Codes) -> Tensor:
        """Return encoded rows, (rows, features + classes)."""
        x = np.stack([own.take(codes[:, k], mode="clip") for k, own in zip(self.indices, self.numbers, strict=True)], 1)
        hot = np.minimum(codes[:, self.target, None], self.classes - 1) == np.arange(self.classes)
        return torch.tensor(np.concatenate([x, hot], 1), dtype=torch.float32).to(self.device)


class _Scaled:
    """Rows as the study encodes them: one number per column, and the class as one-hot.

    Public bounds and the schema's scale map columns to tanh's range, [-1, 1]. On a linear scale, most values of `tsh`
    would lie within a hundredth of the range, and the generator would learn a single point.
    """

    def __init__(self, schema: Schema) -> None:
        self.indices = tuple(k for k, name in enumerate(schema.names) if name != schema.target)
        self.columns = [schema.columns[schema.names[k]] for k in self.indices]
        target = schema.columns[schema.target] if schema.target else None
        if target is None or not target.categorical or target.missing:
            raise SchemaError("The preset thyroid-study needs a categorical target without missing values.")
        if any(column.missing or (column.categorical and column.size != 2) for column in self.columns):
            raise SchemaError("The preset thyroid-study needs binary and numeric columns without missing values.")
        self.index = schema.names.index(schema.target or "")
        self.classes = len(target.levels)
        self.top = np.array([column.size - 1 for column in self.columns], np.float64)
        self.log = np.array([column.scale == "log" for column in self.columns])
        self.map = grid(target, self.classes)

    def encoding(self, device: str) -> ScaledRows:
        """Return the map from codes to rows."""
        numbers = tuple(self._numbers(column) for column in self.columns)
        return ScaledRows(self.indices, numbers, self.index, self.classes, device)

    @staticmethod
    def _numbers(column: Column) -> Floats:
        units = np.arange(column.size, dtype=np.float64)
        part = np.log1p(units) / np.log1p(column.size - 1) if column.scale == "log" else units / (column.size - 1)
        return np.round((2 * part - 1) * STEPS) / STEPS

    def decode(self, x: Tensor, labels: np.ndarray, columns: int) -> Codes:
        """Return the codes of rows, (rows, features) in [-1, 1], and their labels."""
        codes = np.zeros((len(labels), columns), np.int32)
        part = (x.double().numpy() + 1) / 2
        units = np.rint(np.where(self.log, np.expm1(part * np.log1p(self.top)), part * self.top)).astype(np.int32)
        codes[:, self.indices] = np.clip(units, 0, self.top.astype(np.int32))
        codes[:, self.index] = labels
        return codes


class ThyroidStudy(Method):
    """The thyroid study's DP-CGAN."""

    Config = ThyroidConfig

    def queries(self, config: ThyroidConfig, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return the class marginal, and one noised gradient sum of the critic per step."""
        return [
            Charge(label=CLASSES, weight=CLASS_WEIGHT),
            Charge(label=CRITIC_GRADIENTS, weight=1.0, rate=config.sampling_rate(rows), times=config.steps),
        ]

    def check(self, schema: Schema | None) -> None:
        """Raise SchemaError for a schema with missing values, such as each that a fit learns."""
        if schema is None:
            raise SchemaError(
                "The preset thyroid-study needs columns without missing values, and a learned schema does not say "
                "which these are. Draft a schema and declare it.",
                NEEDS_SCHEMA,
            )
        _Scaled(schema)

    def fit(
        self, config: ThyroidConfig, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str,
        progress: Progress,
    ) -> Arrays:  # fmt: skip
        """Fit the generator. Return its tensors and the noised class shares."""
        rows = _Scaled(schema)
        target = schema.target or ""
        prior = cleaned(vault.measure_histograms(CLASSES, {target: rows.map})[target], plan.rows)
        stream = torch_stream(seed, "init")
        net = _generator(config, rows, stream).to(device)
        critic = Mlp([len(rows.indices) + rows.classes, config.width, 1], "relu", stream).to(device)
        adam = torch.optim.Adam(net.parameters(), config.generator_rate)
        latent = torch_stream(seed, "latent", device)
        shares = torch.tensor(prior, device=device)
        lot = config.sampling_rate(plan.equivalent_rows) * plan.rows
        # Microbatches are means: a lot's sum has m terms, not one per row.
        divisor = lot if config.microbatches is None else float(config.microbatches)
        (first, last), encode = config.critic_rate, rows.encoding(device)
        for step in range(config.steps):
            labels = torch.multinomial(shares, config.lot, replacement=True, generator=latent)
            fake = _forward(net, labels, config, rows.classes, latent)
            # Lines 5-9: clip and noise real gradients, clip generated ones separately, and add both.
            real_sum = vault.measure_gradient_sum(
                CRITIC_GRADIENTS, critic, real_loss, encode, config.clip, config.microbatches
            )
            fake_sum = clipped_sum(critic, generated_loss, fake.detach(), config.clip)
            rate = first + (last - first) * step / config.steps
            with torch.no_grad():
                for p, real, made in zip(critic.parameters(), real_sum, fake_sum, strict=True):
                    p.sub_(rate * (real / divisor + made / config.lot))
            # Lines 10-11: the generator follows the noised critic.
            loss = real_loss(critic(_forward(net, labels, config, rows.classes, latent))).mean()
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            progress(step + 1, config.steps)
        tensors = {f"generator.{k}": p.detach().cpu().numpy() for k, p in enumerate(net.parameters())}
        return {**tensors, "prior": prior.astype(np.float32)}

    def generate(
        self, tensors: Arrays, config: ThyroidConfig, schema: Schema, rows: int, count: int, seed: int | None
    ) -> Codes:
        """Draw `count` synthetic rows as codes, (count, columns)."""
        scaled = _Scaled(schema)
        net = _generator(config, scaled, torch_stream(0, "init"))
        restore(net, tensors)
        prior = tensors["prior"].astype(np.float64)
        labels = numpy_stream(seed, "sample").choice(len(prior), count, p=prior / prior.sum())
        with torch.no_grad():
            x = _forward(net, torch.from_numpy(labels), config, scaled.classes, torch_stream(seed, "sample"))
        return scaled.decode(x[:, : len(scaled.indices)], labels, len(schema.columns))


def _generator(config: ThyroidConfig, rows: _Scaled, stream: torch.Generator) -> Mlp:
    return Mlp([config.latent + rows.classes, config.width, len(rows.indices)], "tanh", stream)


def _forward(net: Mlp, labels: Tensor, config: ThyroidConfig, classes: int, stream: torch.Generator) -> Tensor:
    """Generate rows followed by their one-hot labels, (rows, features + classes)."""
    latent = torch.randn(len(labels), config.latent, generator=stream, device=labels.device)
    hot = torch.nn.functional.one_hot(labels, classes).to(latent)
    return torch.cat([torch.tanh(net(torch.cat([latent, hot], 1))), hot], 1)
