"""The encoded row: the numbers of a coded row that critics read, and the codes that a generator's outputs mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...privacy.queries.content import MOST_WIDTH, STEPS, check_numbers, check_size, require
from ...privacy.queries.rows import Codes
from ...rng import Stream
from ...schema import Schema
from ...schema.columns.grid import MOST_CODES, Grid, grid
from ..shared.marginals import GRID_CELLS, Condition, Marginal, normal_scores
from .layout import Layout

SPAN_KINDS = ("number", "binary", "levels")
LARGEST_SCORE = 3.0  # normal scores stay within about three standard deviations


@dataclass(frozen=True, eq=False)
class SpanEncoding:
    """A column's slice of the encoded row, as `Span` says. size: how many codes are values and not missing.

    edges, cdf: (cells + 1,), the distribution by which a number's normal score is found, empty for other columns.
    Raises QueryError unless the edges ascend strictly from zero to `size` and the distribution from zero to one.
    """

    index: int
    kind: str
    start: int
    flag: int | None
    size: int
    edges: NDArray[np.int64]
    cdf: NDArray[np.float64]

    def __post_init__(self) -> None:
        require(self.kind in SPAN_KINDS, "A column is encoded as another kind than there are.")
        require(min(self.index, self.start, self.flag or 0) >= 0, "A column is encoded before the first place.")
        check_size(self.size, MOST_CODES, what="The values of a column")
        if self.kind != "number":
            require(not len(self.edges) and not len(self.cdf), "A column of levels has no distribution of numbers.")
            return
        require(Grid(self.edges, 0).edges[-1] == self.size, "The edges of a number must end where its codes end.")
        check_numbers(self.cdf, self.edges.shape, np.float64, 1.0, what="A distribution of numbers")
        rises = self.cdf[0] == 0 and self.cdf[-1] == 1 and (self.cdf[1:] >= self.cdf[:-1]).all()
        require(bool(rises), "A distribution must rise from zero to one.")

    @property
    def stop(self) -> int:
        """The place after the last that the column fills."""
        last = self.start + (self.size if self.kind == "levels" else 1)
        return last if self.flag is None else max(last, self.flag + 1)


@dataclass(frozen=True, eq=False)
class Encoding:
    """(rows, columns) codes to (rows, width), indicators not yet centred, each row by itself.

    Raises QueryError unless every column's places lie within the width.
    """

    spans: tuple[SpanEncoding, ...]
    width: int

    def __post_init__(self) -> None:
        check_size(self.width, MOST_WIDTH, what="The width of an encoded row")
        require(all(span.stop <= self.width for span in self.spans), "A column is encoded outside the row.")

    def __call__(self, codes: Codes) -> Tensor:
        """(rows, width)."""
        x = np.zeros((len(codes), self.width), np.float32)
        for span in self.spans:
            code = codes[:, span.index]
            missing = code >= span.size
            if span.kind == "number":
                x[:, span.start] = np.where(missing, 0.0, normal_scores(code, span.edges, span.cdf))
            elif span.kind == "binary":
                x[:, span.start] = code == 1
            else:
                x[np.nonzero(~missing)[0], span.start + code[~missing]] = 1
            if span.flag is not None:
                x[:, span.flag] = missing
        return torch.from_numpy(x)


@dataclass(frozen=True)
class EncodedRows:
    """A schema with its noisy marginals: a public, row-by-row map between codes and encoded rows.

    Numbers are normal scores through the noisy histogram; levels and missing flags are indicators less their
    noisy share. Everything has mean zero if the histogram is exact, and depends on its own row alone.
    """

    schema: Schema
    layout: Layout
    marginals: dict[str, Marginal]
    condition: Condition

    @classmethod
    def of(cls, schema: Schema, counts: dict[str, NDArray[np.float64]], rows: float) -> EncodedRows:
        """From one noisy histogram a column and the number of rows."""
        marginals = {name: Marginal.of(c, counts[name], rows) for name, c in schema.columns.items()}
        return cls(schema, Layout.of(schema), marginals, Condition.of(schema, marginals))

    def shares(self) -> Tensor:
        """The noisy share of each indicator, zero for numbers: (width,)."""
        shares = np.zeros(self.layout.width)
        for span in self.layout.spans:
            marginal = self.marginals[span.name]
            if span.kind == "binary":
                shares[span.start] = marginal.shares[1] * (1 - marginal.missing_share)
            elif span.kind == "levels":
                shares[span.start : span.stop] = marginal.shares * (1 - marginal.missing_share)
            if span.flag is not None:
                shares[span.flag] = marginal.missing_share
        return torch.from_numpy(shares)

    @property
    def encode(self) -> Encoding:
        """The map from codes to encoded rows, indicators not yet centred."""
        spans = []
        for span in self.layout.spans:
            marginal = self.marginals[span.name]
            kept = slice(None) if span.kind == "number" else slice(0)
            edges, cdf = marginal.grid.edges[kept].astype(np.int64), np.round(marginal.cdf[kept] * STEPS) / STEPS
            spans.append(SpanEncoding(span.index, span.kind, span.start, span.flag, marginal.column.size, edges, cdf))
        return Encoding(tuple(spans), self.layout.width)

    def decode(self, x: Tensor, classes: NDArray[np.int64], rng: Stream) -> Codes:
        """Hard encoded rows (rows, width) and their classes to codes. `rng` spreads values inside cells."""
        out, codes = x.double().cpu().numpy(), np.zeros((len(x), len(self.schema.columns)), np.int32)
        for span in self.layout.spans:
            marginal = self.marginals[span.name]
            if span.kind == "number":
                code = marginal.codes(out[:, span.start], rng.random(len(x)))
            elif span.kind == "binary":
                code = (out[:, span.start] > 0.5).astype(np.int32)
            else:
                code = out[:, span.start : span.stop].argmax(1).astype(np.int32)
            if span.flag is not None:
                code = np.where(
                    out[:, span.flag] > 0.5, marginal.column.size + self._kinds(marginal, rng, len(x)), code
                )
            codes[:, span.index] = code
        if self.condition.index is not None:
            codes[:, self.condition.index] = self.condition.codes(classes.astype(np.int32), rng.random(len(x)))
        return codes

    @staticmethod
    def _kinds(marginal: Marginal, rng: Stream, count: int) -> Codes:
        """Which kind of missing value each row has where it has one: all of them share one flag."""
        if len(marginal.gaps) == 1:
            return np.zeros(count, np.int32)
        shares = marginal.gaps / marginal.gaps.sum()
        return rng.choice(len(shares), count, p=shares).astype(np.int32)

    def harden(self, logits: Tensor, generator: torch.Generator, temperature: float = 0.5) -> Tensor:
        """A generator's raw outputs (rows, width) as an encoded row of hard draws with soft gradients.

        Numbers are squashed to the range of normal scores; indicators are drawn (Gumbel noise) and pass their
        gradient straight through the relaxed draw (Jang, Gu, Poole 2017).
        """
        uniform = torch.rand(logits.shape, generator=generator, device=logits.device).clamp(1e-6, 1 - 1e-6)
        parts: list[Tensor] = []
        for span in self.layout.spans:
            raw, u = logits[:, span.start : span.stop], uniform[:, span.start : span.stop]
            if span.kind == "number":
                value = LARGEST_SCORE * torch.tanh(raw / LARGEST_SCORE)
            elif span.kind == "binary":
                value = _bernoulli(raw, u, temperature)
            else:
                noisy = raw - torch.log(-torch.log(u))
                soft = torch.softmax(noisy / temperature, 1)
                value = _through(torch.nn.functional.one_hot(noisy.argmax(1), soft.shape[1]).to(soft), soft)
            if span.flag is not None:
                at = slice(span.flag, span.flag + 1)
                flag = _bernoulli(logits[:, at], uniform[:, at], temperature)
                parts += [value * (1 - flag), flag]  # of a missing value only the flag is encoded
            else:
                parts.append(value)
        return torch.cat(parts, 1)

    def start_bias(self) -> Tensor:
        """Generator biases that begin at the noisy shares: (width,)."""
        shares = self.shares().float().clamp(1e-3, 1 - 1e-3)
        bias = torch.zeros(self.layout.width)
        for span in self.layout.spans:
            at = slice(span.start, span.stop)
            if span.kind == "levels":
                bias[at] = shares[at].log()
            elif span.kind == "binary":
                bias[at] = torch.logit(shares[at])
            if span.flag is not None:
                bias[span.flag] = torch.logit(shares[span.flag])
        return bias


def _through(hard: Tensor, soft: Tensor) -> Tensor:
    return hard + soft - soft.detach()


def _bernoulli(logit: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    noisy = logit + torch.log(uniform) - torch.log1p(-uniform)
    return _through((noisy > 0).to(noisy), torch.sigmoid(noisy / temperature))


def histogram_maps(schema: Schema) -> dict[str, Grid]:
    """The public grid of every column, over which its one-way marginal is measured."""
    return {name: grid(column, GRID_CELLS) for name, column in schema.columns.items()}
