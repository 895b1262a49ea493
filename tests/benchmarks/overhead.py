"""The cost of a guarantee: a critic's step with clipping and noise compared with a plain one; and a GPU's gain.

A step reads a lot of real rows and as many generated rows, and updates the critic. "Plain" is the gradient of both by
autograd, without a guarantee. "Clipped" is what fits use: the exact clipped sum of real rows with noise, and the
clipped sum of generated ones. "Opacus" and "vmap" are Opacus' per-row gradients and torch.func's, clipped and noised in
float32, for both. All run one after another in one process: medians of at least five steps and half a second each. A
CPU's seconds are those of the processor, all threads together, so that other work on the machine does not count.

With --fits, whole fits of each method on a simulated clinic are timed on each device. Every device of the machine is
measured, the CPU with OMP_NUM_THREADS threads. A figure on file is not measured again.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from opacus.grad_sample import GradSampleModule
from torch import Tensor

from medsynth.methods.adversarial import clipped_sum, generated_loss, real_loss
from medsynth.privacy.clipping import PRODUCT_BITS, SUM_BITS, clipped_gradient_sum
from medsynth.privacy.networks import Mlp
from medsynth.privacy.queries.gradients import GradientSum, where_computed
from medsynth.rng import system_entropy
from tests.benchmarks.common import Run, append, markdown, options, read

FIELDS = ["device", "what", "kind", "seconds"]
CRITICS = {  # Widths of layers, and rows of a lot.
    "24-128-1, 32": ([24, 128, 1], 32),
    "24-128-1, 512": ([24, 128, 1], 512),
    "24-128-1, 4096": ([24, 128, 1], 4096),
    "160-256-1, 512": ([160, 256, 1], 512),
    "794-1024-512-1, 4096": ([794, 1024, 512, 1], 4096),
}
CLIP, NOISE, RATE = 1.1, 1.0, 0.05
LEAST_STEPS, LEAST_SECONDS = 5, 0.5
MOST_NUMBERS = 1 << 28  # Per-row gradients in memory; Opacus and vmap are left out above it.
CLINIC_ROWS, EPSILON = 4000, 3.7
Cell = tuple[str, str, str]  # device; critic and lot, or "fit"; kind of step, or method
Step = Callable[[Mlp, Tensor, Tensor], list[Tensor]]


def plain(critic: Mlp, real: Tensor, made: Tensor) -> list[Tensor]:
    """Return the summed gradient of both, without clipping or noise."""
    loss = real_loss(critic(real)).sum() + generated_loss(critic(made)).sum()
    return list(torch.autograd.grad(loss, list(critic.parameters())))


def clipped(critic: Mlp, real: Tensor, made: Tensor) -> list[Tensor]:
    """Return what a fit uses: the exact clipped sum of real rows with noise in whole numbers, and the other sum."""
    query = GradientSum(critic, real_loss, lambda codes: real, CLIP)
    whole = [each >> PRODUCT_BITS - SUM_BITS for each in clipped_gradient_sum(critic, real_loss, real, CLIP).whole]
    released = query.noised_finished(where_computed(whole), CLIP * NOISE, system_entropy())
    other = clipped_sum(critic, generated_loss, made, CLIP)
    return [noisy + fake for noisy, fake in zip(query.result(released), other, strict=True)]


def _clip(gradients: list[Tensor]) -> list[Tensor]:
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients]).norm(dim=0)
    weights = (CLIP / norms.clamp(min=1e-12)).clamp(max=1.0)
    return [torch.einsum("n,n...->...", weights, g) for g in gradients]


def _with_noise(own: list[Tensor], other: list[Tensor]) -> list[Tensor]:
    return [a + CLIP * NOISE * torch.randn_like(a) + b for a, b in zip(own, other, strict=True)]


def opacus(critic: Mlp, real: Tensor, made: Tensor) -> list[Tensor]:
    """Return sums of per-row gradients by Opacus' hooks."""
    sums = []
    for rows, loss in ((real, real_loss), (made, generated_loss)):
        wrapped = GradSampleModule(copy.deepcopy(critic), loss_reduction="sum")
        torch.autograd.backward(loss(wrapped(rows)).sum())
        sums.append(_clip([p.grad_sample for p in wrapped.parameters()]))
    return _with_noise(*sums)


def vmap(critic: Mlp, real: Tensor, made: Tensor) -> list[Tensor]:
    """Return sums of per-row gradients by torch.func."""
    weights = {name: p.detach() for name, p in critic.named_parameters()}
    sums = []
    for rows, loss in ((real, real_loss), (made, generated_loss)):

        def one(w: dict[str, Tensor], row: Tensor, loss: Any = loss) -> Tensor:
            found: Tensor = loss(torch.func.functional_call(critic, w, (row[None],)))[0]
            return found

        each = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0))(weights, rows)
        sums.append(_clip(list(each.values())))
    return _with_noise(*sums)


STEPS: dict[str, Step] = {"plain": plain, "clipped": clipped, "opacus": opacus, "vmap": vmap}


def seconds_of(step: Step, critic: Mlp, rows: Tensor, device: str) -> float:
    """Return the median seconds of an update, after two that are not counted: by the processor's clock on a CPU."""
    made, times, now = rows.flip(0), list[float](), time.perf_counter if device == "cuda" else time.process_time
    while len(times) < LEAST_STEPS + 2 or sum(times[2:]) < LEAST_SECONDS:
        if device == "cuda":
            torch.cuda.synchronize()
        started = now()
        found = step(critic, rows, made)
        with torch.no_grad():
            for p, g in zip(critic.parameters(), found, strict=True):
                p.sub_(RATE / len(rows) * g)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(now() - started)
    return statistics.median(times[2:])


def steps_on(device: str, done: Container[Cell]) -> Iterator[Run]:
    """Yield the seconds of each step of each critic that is not on file."""
    for name, (sizes, lot) in CRITICS.items():
        rows = torch.from_numpy(np.random.default_rng(0).normal(size=(lot, sizes[0])).astype(np.float32)).to(device)
        for kind, step in STEPS.items():
            critic = Mlp(sizes, "relu", torch.Generator().manual_seed(0)).to(device)
            if (device, name, kind) in done:
                continue
            if kind in ("opacus", "vmap") and lot * sum(p.numel() for p in critic.parameters()) > MOST_NUMBERS:
                continue
            seconds = seconds_of(step, critic, rows, device)
            yield {"device": device, "what": name, "kind": kind, "seconds": seconds}


def fits_on(device: str, done: Container[Cell], methods: list[str] | None) -> Iterator[Run]:
    """Yield the seconds of one fit of each method, or of each with a claim. A process's first fit is not counted."""
    from medsynth_sample_data import simulate

    import medsynth
    from medsynth.methods.registry import CLAIMING

    frame = simulate.cohort(CLINIC_ROWS, 1)
    medsynth.fit(frame, epsilon=EPSILON, target="diagnosis", device=device)
    for method in methods or CLAIMING:
        if (device, "fit", method) in done:
            continue
        started = time.perf_counter()
        medsynth.fit(frame, epsilon=EPSILON, target="diagnosis", method=method, device=device)
        seconds = time.perf_counter() - started
        yield {"device": device, "what": "fit", "kind": method, "seconds": seconds}


def printed(seconds: dict[Cell, float]) -> None:
    """Print milliseconds per step, the clipped one compared with the plain one of the device; and seconds per fit."""
    devices = sorted({device for device, _, _ in seconds})
    lines = []
    for device in devices:
        for name in CRITICS:
            own = {kind: seconds[device, name, kind] for kind in STEPS if (device, name, kind) in seconds}
            each = [f"{1000 * own[kind]:.2f} ms" if kind in own else "" for kind in STEPS]
            lines.append([device, name, *each, f"{own['clipped'] / own['plain']:.2f}"])
    print(markdown(["device", "critic, lot", *STEPS, "clipped / plain"], lines))
    fits = sorted({kind for _, what, kind in seconds if what == "fit"})
    if fits:
        cells = ([kind, *(f"{seconds[device, 'fit', kind]:.1f} s" for device in devices)] for kind in fits)
        print("\n" + markdown(["method", *devices], cells))


def main(words: list[str]) -> None:
    """Measure, put on file, and print the tables."""
    parser = options("overhead", __doc__, output="overhead.csv")
    parser.add_argument("--fits", action="store_true", help="time whole fits too")
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="of these fits alone")
    given = parser.parse_args(words)
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {devices}", flush=True)
    runs = read(given.output, FIELDS)
    seconds: dict[Cell, float] = {(r["device"], r["what"], r["kind"]): float(r["seconds"]) for r in runs}
    fits = partial(fits_on, methods=given.methods)
    for measure in (steps_on, fits) if given.fits else (steps_on,):
        for run in (run for device in devices for run in measure(device, seconds)):
            append(given.output, FIELDS, run)
            seconds[run["device"], run["what"], run["kind"]] = run["seconds"]
    printed(seconds)
