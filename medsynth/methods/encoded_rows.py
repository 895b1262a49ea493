"""Encode rows for the critic of DP-CGAN, and compute random Fourier features (Rahimi, Recht 2007) of encoded rows.

An encoded row has a normal score for each number and indicators for levels and missing values. Generators make encoded
rows, which are then decoded to codes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ..arrays import Codes, Floats, Whole
from ..privacy.queries.content import LOCAL, MOST_WIDTH, STEPS, check_numbers, check_size, require
from ..privacy.queries.rows import CellMap, cells_of
from ..rng import Stream
from ..schema import Schema
from ..schema.columns.grid import MOST_CODES, Grid
from .marginals import Conditioning, Marginal, normal_scores

SPAN_KINDS = ("number", "binary", "levels")
LARGEST_SCORE = 3.0  # normal scores stay within about three standard deviations
TURN = 1 << 16  # entries of the table of cosines and sines for real rows
MOST_TURNS = 2.0**39  # bound on a frequency's sum: times 3 and 2^12, of a row's numbers, below 2^53
ROW_BITS, FREQUENCY_BITS = 12, 20  # bits of rows' numbers and of frequencies: their products are exact


@dataclass(frozen=True, eq=False)
class SpanEncoding:
    """A column's slice of the encoded row, from `start` to `end`. `flag`: the place of its missing flag, or None.

    kind: "number" (one normal score), "binary" (one indicator of the second level), or "levels" (one-hot). index: the
    column's place among the codes. size: the number of codes that are values. edges, cdf: (cells + 1,), the
    distribution for a number's normal score; empty for other columns. Raises QueryError unless the edges ascend
    strictly from zero to `size` and the distribution rises from zero to one.
    """

    index: int
    kind: str
    start: int
    flag: int | None
    size: int
    edges: Whole
    cdf: Floats

    def __post_init__(self) -> None:
        require(self.kind in SPAN_KINDS, f"The kind of an encoded column must be one of {', '.join(SPAN_KINDS)}.")
        require(min(self.index, self.start, self.flag or 0) >= 0, "Places in an encoded row must not be negative.")
        check_size(self.size, MOST_CODES, what="The values of a column")
        if self.kind != "number":
            require(not len(self.edges) and not len(self.cdf), "A column of levels has no distribution of numbers.")
            return
        require(Grid(self.edges, 0).edges[-1] == self.size, "The edges of a number must end where its codes end.")
        check_numbers(self.cdf, self.edges.shape, np.float64, 1.0, what="A distribution of numbers")
        rises = self.cdf[0] == 0 and self.cdf[-1] == 1 and (self.cdf[1:] >= self.cdf[:-1]).all()
        require(bool(rises), "A distribution must rise from zero to one.")

    @property
    def end(self) -> int:
        """The first place after the column's slice."""
        return self.start + (self.size if self.kind == "levels" else 1)

    @property
    def stop(self) -> int:
        """The first place after the column's slice and flag."""
        return self.end if self.flag is None else max(self.end, self.flag + 1)


@dataclass(frozen=True, eq=False)
class Encoding:
    """A map from codes, (rows, columns), to encoded rows, (rows, width), row by row. Indicators are not yet centred.

    Raises QueryError unless every column's places lie within the width.
    """

    spans: tuple[SpanEncoding, ...]
    width: int

    def __post_init__(self) -> None:
        check_size(self.width, MOST_WIDTH, what="The width of an encoded row")
        require(all(span.stop <= self.width for span in self.spans), "A column must not be encoded outside the row.")

    def __call__(self, codes: Codes) -> Tensor:
        """Return encoded rows, (rows, width)."""
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

    Numbers become normal scores by the noisy histogram. Levels and missing flags become indicators minus their noisy
    shares. All numbers have mean zero if the histogram is exact. Each depends only on its own row.
    """

    schema: Schema
    encode: Encoding  # codes to encoded rows, indicators not yet centred
    marginals: dict[str, Marginal]
    condition: Conditioning

    @classmethod
    def of(cls, schema: Schema, counts: dict[str, Floats], rows: float) -> EncodedRows:
        """Return the map for one noisy histogram per column and the number of rows."""
        marginals = {name: Marginal.of(c, counts[name], rows) for name, c in schema.columns.items()}
        spans = list[SpanEncoding]()
        at = 0
        for index, (name, column) in enumerate(schema.columns.items()):
            if name == schema.target:
                continue
            kind = "number" if not column.categorical else "binary" if column.size == 2 else "levels"
            end = at + (column.size if kind == "levels" else 1)
            kept = slice(None) if kind == "number" else slice(0)
            marginal = marginals[name]
            edges = marginal.grid.edges[kept].astype(np.int64)
            cdf = np.round(marginal.cdf[kept] * STEPS) / STEPS
            spans.append(SpanEncoding(index, kind, at, end if column.missing else None, column.size, edges, cdf))
            at = spans[-1].stop
        return cls(schema, Encoding(tuple(spans), at), marginals, Conditioning.of(schema, marginals))

    def columns(self) -> Iterator[tuple[SpanEncoding, Marginal]]:
        """Yield the slice and the marginal of each column except the target."""
        for span in self.encode.spans:
            yield span, self.marginals[self.schema.names[span.index]]

    def shares(self) -> Tensor:
        """Return the noisy share of each indicator, zero for numbers: (width,)."""
        shares = np.zeros(self.encode.width)
        for span, marginal in self.columns():
            if span.kind == "binary":
                shares[span.start] = marginal.shares[1] * (1 - marginal.missing_share)
            elif span.kind == "levels":
                shares[span.start : span.end] = marginal.shares * (1 - marginal.missing_share)
            if span.flag is not None:
                shares[span.flag] = marginal.missing_share
        return torch.from_numpy(shares)

    def decode(self, x: Tensor, classes: Whole, rng: Stream) -> Codes:
        """Return codes of hard encoded rows, (rows, width), and their classes. `rng` spreads values inside cells."""
        out = x.double().cpu().numpy()
        codes = np.zeros((len(x), len(self.schema.columns)), np.int32)
        for span, marginal in self.columns():
            if span.kind == "number":
                code = marginal.codes(out[:, span.start], rng.random(len(x)))
            elif span.kind == "binary":
                code = (out[:, span.start] > 0.5).astype(np.int32)
            else:
                code = out[:, span.start : span.end].argmax(1).astype(np.int32)
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
        """Draw the kind of missing value for each row. All kinds share one flag."""
        if len(marginal.gaps) == 1:
            return np.zeros(count, np.int32)
        shares = marginal.gaps / marginal.gaps.sum()
        return rng.choice(len(shares), count, p=shares).astype(np.int32)

    def harden(self, logits: Tensor, generator: torch.Generator, temperature: float = 0.5) -> Tensor:
        """Turn a generator's raw outputs, (rows, width), into encoded rows: hard draws with soft gradients.

        Numbers are squashed to the range of normal scores. Indicators are drawn with Gumbel noise, and pass the
        gradient of the relaxed draw (Jang, Gu, Poole 2017).
        """
        uniform = torch.rand(logits.shape, generator=generator, device=logits.device).clamp(1e-6, 1 - 1e-6)
        parts: list[Tensor] = []
        for span in self.encode.spans:
            raw, u = logits[:, span.start : span.end], uniform[:, span.start : span.end]
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
                parts += [value * (1 - flag), flag]  # a missing value has only its flag
            else:
                parts.append(value)
        return torch.cat(parts, 1)

    def start_bias(self) -> Tensor:
        """Return biases with which the generator starts at the noisy shares: (width,)."""
        shares = self.shares().float().clamp(1e-3, 1 - 1e-3)
        bias = torch.zeros(self.encode.width)
        for span in self.encode.spans:
            at = slice(span.start, span.end)
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


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """A map from codes to random Fourier features in the block of the row's class: (rows, classes * 2 * frequencies).

    encoding: of rows. index, classes: the target's column and its classes. turns: frequencies as whole parts of a turn,
    (width, frequencies). centre: the phase of the mean row, (frequencies,). A row's features never depend on other
    rows, because products of whole numbers are exact: sums of a row's numbers (at most 3) times frequencies stay below
    2^53. Raises QueryError for larger frequencies, or for shapes that do not match.
    """

    encoding: Encoding
    index: int
    classes: CellMap
    turns: Tensor
    centre: Tensor
    device: str = field(default="cpu", metadata=LOCAL)

    def __post_init__(self) -> None:
        require(self.index >= 0 and self.turns.dim() == 2, "Random features need a target and a table of frequencies.")
        count = self.turns.shape[1]
        check_size(count * 2 * self.classes.cells, MOST_WIDTH, what="The width of random features")
        check_numbers(self.turns, (self.encoding.width, count), np.float64, MOST_TURNS, what="Frequencies")
        check_numbers(self.centre, (count,), np.int64, MOST_TURNS, what="Phases of the mean row")
        whole = bool((self.turns == self.turns.round()).all())
        require(whole, "Frequencies must be whole parts of a turn.")
        require(bool((self.turns.abs().sum(0) <= MOST_TURNS).all()), "Frequencies are too large for exact products.")

    def __call__(self, codes: Codes) -> Tensor:
        """Return features, (rows, classes * 2 * frequencies)."""
        labels = torch.from_numpy(cells_of(self.classes, codes[:, self.index])).to(self.device)
        whole = (self.encoding(codes).to(self.device).double() * 2.0**ROW_BITS).round() @ self.turns
        place = (whole * (TURN * 2.0 ** -(ROW_BITS + FREQUENCY_BITS))).round().long() - self.centre
        features = torch.cat(list(_circle(len(self.centre), self.device)[:, place & (TURN - 1)]), 1)
        hot = torch.nn.functional.one_hot(labels, self.classes.cells).to(features)
        return (hot[:, :, None] * features[:, None, :]).flatten(1)


@lru_cache(maxsize=2)
def _circle(count: int, device: str) -> Tensor:
    """Return cosines and sines of all parts of a turn, (2, TURN), scaled so that `count` pairs have norm one."""
    circle = torch.arange(TURN, dtype=torch.float64) * (math.tau / TURN)
    return (torch.stack([circle.cos(), circle.sin()]) / math.sqrt(count)).float().to(device)


class Embedding:
    """The critic's fixed hidden layer: random Fourier features of a centred row, (rows, width), of norm one.

    The norm is exact, because each frequency gives a sine and a cosine. So clipping at one changes nothing. The noisy
    marginals' total variance scales the frequencies, so that the mean phase between two rows is about `phase`. Their
    log-uniform spread covers small and large differences.
    """

    def __init__(
        self, rows: EncodedRows, count: int, phase: float, spread: float, clip: float, stream: Stream, device: str
    ) -> None:
        half = count // 2
        self._clip = clip
        shares = rows.shares()  # in float64, so that rounded frequencies are the same on every machine
        self._shares = shares.float().to(device)
        numbers = sum(span.kind == "number" for span in rows.encode.spans)
        variance = numbers + float((shares * (1 - shares)).sum())
        scale = phase / math.sqrt(2 * max(variance, 0.1))
        widths = np.exp(stream.uniform(-spread, spread, half))
        frequencies = torch.from_numpy(stream.standard_normal((rows.encode.width, half)) * scale * widths)
        turns = (frequencies * (2.0**FREQUENCY_BITS / math.tau)).round()
        self._frequencies = (turns * (math.tau * 2.0**-FREQUENCY_BITS)).float().to(device)
        centre = (shares @ (turns * (TURN * 2.0**-FREQUENCY_BITS))).round().long()
        self.width = 2 * half
        # Real rows for the critic: the features in the block of the row's class, zero elsewhere.
        condition = rows.condition
        self.by_class = FourierFeatures(
            rows.encode, condition.index or 0, condition, turns.to(device), centre.to(device), device
        )

    def features(self, x: Tensor) -> Tensor:
        """Return features, (rows, width), of encoded rows, (rows, columns' width)."""
        angles = (x - self._shares) @ self._frequencies
        return torch.cat([torch.cos(angles), torch.sin(angles)], 1) / math.sqrt(self.width / 2)

    def clipped(self, x: Tensor) -> Tensor:
        """Return features of generated rows, each clipped to the same norm as real rows."""
        features = self.features(x)
        factors: Tensor = (self._clip / features.norm(dim=1, keepdim=True)).clamp(max=1.0)
        return features * factors
