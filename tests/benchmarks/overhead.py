"""What a guarantee costs: a critic's step with clipping and noise beside a plain one; and what a GPU gains.

    OMP_NUM_THREADS=1 python tests/benchmarks/overhead.py --fits --output results/overhead.csv

A step reads a lot of real rows and as many generated ones, and updates the critic. "Plain" is the gradient of both by
autograd, without a guarantee. "Clipped" is what fits do: exact clipped sums of both and noise on that of real rows.
"Opacus" and "vmap" are Opacus' per-row gradients and torch.func's, clipped and noised in float32, likewise for both.
All are run one after another in one process: medians of at least five steps and half a second each.

With `--fits`, seconds of whole fits of each method on a simulated clinic, on each device. Every device that is there is
measured, the CPU with as many threads as OMP_NUM_THREADS says. What is on file is not taken again.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import resumable
import torch
from opacus.grad_sample import GradSampleModule
from torch import Tensor

from medsynth.methods.adversarial import generated_loss, real_loss
from medsynth.privacy.clipping import PRODUCT_BITS, SUM_BITS, clipped_gradient_sum, units
from medsynth.privacy.networks import Mlp
from medsynth.privacy.noise import noised
from medsynth.rng import system_entropy

FIELDS = ["device", "what", "kind", "seconds"]
CRITICS = {  # widths and rows of a lot
    "24-128-1, 32": ([24, 128, 1], 32),
    "24-128-1, 512": ([24, 128, 1], 512),
    "24-128-1, 4096": ([24, 128, 1], 4096),
    "160-256-1, 512": ([160, 256, 1], 512),
    "794-1024-512-1, 4096": ([794, 1024, 512, 1], 4096),
}
CLIP, NOISE, RATE = 1.1, 1.0, 0.05
LEAST_STEPS, LEAST_SECONDS = 5, 0.5
MOST_NUMBERS = 1 << 28  # of per-row gradients in memory: beyond it, Opacus and vmap are left out
CLINIC_ROWS, EPSILON = 4000, 3.7
Run = dict[str, Any]
Job = tuple[str, str, str]  # device; critic and lot, or "fit"; kind of step, or method
Step = Callable[[Mlp, Tensor, Tensor], list[Tensor]]


def plain(critic: Mlp, real: Tensor, made: Tensor) -> list[Tensor]:
    """The summed gradient of both, without clipping or noise."""
    loss = real_loss(critic(real)).sum() + generated_loss(critic(made)).sum()
    return list(torch.autograd.grad(loss, list(critic.parameters())))


def clipped(critic: Mlp, real: Tensor, made: Tensor) -> list[Tensor]:
    """What a fit does: exact clipped sums, and noise on real rows' in whole numbers."""
    own = clipped_gradient_sum(critic, real_loss, real, CLIP)
    other = clipped_gradient_sum(critic, generated_loss, made, CLIP).tensors
    unit, found = units(CLIP)[1], []
    for whole, fake in zip(own.whole, other, strict=True):
        released = (whole >> PRODUCT_BITS - SUM_BITS).cpu().numpy()
        noisy = noised(released, CLIP * NOISE / unit, system_entropy()) * unit
        found.append(torch.from_numpy(noisy).to(fake) + fake)
    return found


def _clip(gradients: list[Tensor]) -> list[Tensor]:
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients]).norm(dim=0)
    weights = (CLIP / norms.clamp(min=1e-12)).clamp(max=1.0)
    return [torch.einsum("n,n...->...", weights, g) for g in gradients]


def _with_noise(own: list[Tensor], other: list[Tensor]) -> list[Tensor]:
    return [a + CLIP * NOISE * torch.randn_like(a) + b for a, b in zip(own, other, strict=True)]


def opacus(critic: Mlp, real: Tensor, made: Tensor) -> list[Tensor]:
    """Per-row gradients by Opacus' hooks."""
    sums = []
    for rows, loss in ((real, real_loss), (made, generated_loss)):
        wrapped = GradSampleModule(copy.deepcopy(critic), loss_reduction="sum")
        torch.autograd.backward(loss(wrapped(rows)).sum())
        sums.append(_clip([p.grad_sample for p in wrapped.parameters()]))
    return _with_noise(*sums)


def vmap(critic: Mlp, real: Tensor, made: Tensor) -> list[Tensor]:
    """Per-row gradients by torch.func."""
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
    """The median seconds of an update, after two that are not counted."""
    made, times = rows.flip(0), list[float]()
    while len(times) < LEAST_STEPS + 2 or sum(times[2:]) < LEAST_SECONDS:
        if device == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        found = step(critic, rows, made)
        with torch.no_grad():
            for p, g in zip(critic.parameters(), found, strict=True):
                p.sub_(RATE / len(rows) * g)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return statistics.median(times[2:])


def steps_on(device: str, done: Container[Job]) -> Iterator[Run]:
    """Seconds of each step of each critic that is not done."""
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


def fits_on(device: str, done: Container[Job]) -> Iterator[Run]:
    """Seconds of one fit of each method that makes a claim and is not done, the first of a process not counted."""
    from medsynth_sample_data import simulate

    import medsynth
    from medsynth.methods.registry import CLAIMING

    frame = simulate.cohort(CLINIC_ROWS, 1)
    medsynth.fit(frame, epsilon=EPSILON, target="diagnosis", device=device)
    for method in CLAIMING:
        if (device, "fit", method) in done:
            continue
        started = time.perf_counter()
        medsynth.fit(frame, epsilon=EPSILON, target="diagnosis", method=method, device=device)
        seconds = time.perf_counter() - started
        yield {"device": device, "what": "fit", "kind": method, "seconds": seconds}


def printed(seconds: dict[Job, float]) -> None:
    """Markdown: milliseconds a step, the clipped one beside the plain one of the device; and seconds a fit."""
    devices = sorted({device for device, _, _ in seconds})
    print(f"| device | critic, lot | {' | '.join(STEPS)} | clipped / plain |\n|{' --- |' * (len(STEPS) + 3)}")
    for device in devices:
        for name in CRITICS:
            own = {kind: seconds[device, name, kind] for kind in STEPS if (device, name, kind) in seconds}
            each = [f"{1000 * own[kind]:.2f} ms" if kind in own else "" for kind in STEPS]
            print(f"| {device} | {name} | {' | '.join(each)} | {own['clipped'] / own['plain']:.2f} |")
    fits = sorted({kind for _, what, kind in seconds if what == "fit"})
    if fits:
        print(f"\n| method | {' | '.join(devices)} |\n|{' --- |' * (len(devices) + 1)}")
    for kind in fits:
        each = [f"{seconds[device, 'fit', kind]:.1f} s" for device in devices]
        print(f"| {kind} | {' | '.join(each)} |")


def _job(run: Run) -> Job:
    return run["device"], run["what"], run["kind"]


def main() -> None:
    """Measure, put on file, and print markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", action="store_true", help="time whole fits too")
    parser.add_argument("--output", type=Path, default=Path("results/overhead.csv"))
    given = parser.parse_args()
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {devices}", flush=True)
    seconds = {_job(run): float(run["seconds"]) for run in resumable.read(given.output, FIELDS)}
    for measure in (steps_on, fits_on) if given.fits else (steps_on,):
        for run in (run for device in devices for run in measure(device, seconds)):
            resumable.append(given.output, FIELDS, run)
            seconds[_job(run)] = run["seconds"]
    printed(seconds)


if __name__ == "__main__":
    main()
