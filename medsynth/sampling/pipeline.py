"""Sample: from an artifact to synthetic rows. Runs where the data never was, and costs no privacy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..artifact import Model, load
from ..errors import ArtifactError, MedsynthError, UsageError
from ..methods import registry
from ..methods.settings import restored_settings
from ..rng import stream_seed
from ..transforms.conditions import parse
from ..transforms.table_codec import csv_cells, decode
from .rejection import SIZES, held

CHUNK = 100_000  # rows in memory at once where they are written to a file


def sample_codes(
    model: Model,
    n: int | None = None,
    seed: int | None = None,
    where: Sequence[str] = (),
    balance: bool = False,
    first: int = 0,
) -> NDArray[np.int32]:
    """`n` synthetic rows as codes, (n, columns); `first` rows were drawn before, whose keys are not used again.

    Raises UsageError unless n is positive and `where` can be met.
    """
    count = model.rows if n is None else n
    if count < 1:
        raise UsageError("-n must be one or more.")
    method = registry.find(model.method, model.preset)
    module = method.load(model.preset)
    config = restored_settings(module.Config, model.config)
    core = model.schema.core
    options = {"where": parse(where, core), "balance": balance} if where or balance else {}
    if options and not method.conditional_sampling:
        takers = ", ".join(name for name, other in registry.METHODS.items() if other.conditional_sampling)
        raise UsageError(f"`where` and `balance` need a model of {takers}; this is one of {model.method}.")

    def draw(rows: int, seed: int | None, fixed: dict[str, NDArray[np.int32]] | None = None) -> NDArray[np.int32]:
        given = {**options, "fixed": fixed} if fixed and method.conditional_sampling else options
        codes: NDArray[np.int32] = module.generate(model.tensors, config, core, model.rows, rows, seed, **given)
        for name, own in (fixed or {}).items():
            codes[:, core.names.index(name)] = own
        return codes

    try:
        sizes = model.tensors[SIZES].astype(np.float64) if model.schema.unit else None
        return held(draw, model.schema, count, seed, sizes, first)
    except MedsynthError:
        raise
    except Exception as error:  # whatever a hostile file provokes is one thing to the user
        raise ArtifactError("This model's tensors do not fit its schema. Refit it.") from error


def sample(
    model: Model | Path | str,
    n: int | None = None,
    seed: int | None = None,
    where: Sequence[str] = (),
    balance: bool = False,
) -> pd.DataFrame:
    """`n` synthetic rows (by default as many as the model's public row count), in the original's columns and dtypes.

    `seed` repeats the draw. `where` holds conditions such as "sex=F" or "age=40..60"; `balance` draws classes evenly.
    Raises UsageError unless n is positive and the conditions can be met, ArtifactError for a broken model.
    """
    model = model if isinstance(model, Model) else load(model)
    return decode(sample_codes(model, n, seed, where, balance), model.schema, model.dtypes)


def sample_csv(
    model: Model, n: int | None = None, seed: int | None = None, where: Sequence[str] = (), balance: bool = False
) -> str:
    """The same as CSV text, numbers with their exact decimals."""
    return "".join(csv_chunks(model, n, seed, where, balance))


def csv_chunks(
    model: Model, n: int | None = None, seed: int | None = None, where: Sequence[str] = (), balance: bool = False
) -> Iterator[str]:
    """That text in parts, so that any number of rows is drawn in constant memory."""
    for k, codes in enumerate(_parts(model, n, seed, where, balance)):
        text: str = csv_cells(codes, model.schema).to_csv(index=False, header=k == 0, lineterminator="\n")
        yield text


def frames(
    model: Model, n: int | None = None, seed: int | None = None, where: Sequence[str] = (), balance: bool = False
) -> Iterator[pd.DataFrame]:
    """The same rows as frames, part by part."""
    return (decode(codes, model.schema, model.dtypes) for codes in _parts(model, n, seed, where, balance))


def _parts(
    model: Model, n: int | None, seed: int | None, where: Sequence[str], balance: bool
) -> Iterator[NDArray[np.int32]]:
    count = model.rows if n is None else n
    for start in range(0, max(count, 1), CHUNK):
        own = seed if start == 0 or seed is None else stream_seed(seed, f"rows from {start}")
        yield sample_codes(model, min(CHUNK, count - start), own, where, balance, start)
