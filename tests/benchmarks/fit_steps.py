"""How far the generator of the default method is fitted after so many steps, at several settings of Adam.

    python tests/benchmarks/fit_steps.py --rows 4000 50000 --epsilons 3.7 300

One fit of the simulated clinic for each count and epsilon; its generator is fitted again and again to the same noisy
measurements. The objective is what a fit makes small: half the squared errors in variances of the noise, and minus the
logarithm of the coefficients' prior. No score of synthetic rows is looked at.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from medsynth_sample_data import simulate

import medsynth
from medsynth.methods.shared import adam
from medsynth.methods.warm_dp_cgan import generator_fit, training

# Learning rate, decay of means, decay of squares.
SETTINGS = [(0.02, 0.9, 0.99), (0.06, 0.9, 0.99), (0.06, 0.9, 0.9), (0.06, 0.95, 0.95), (0.15, 0.95, 0.95)]
STEPS = [150, 300, 450, 900, 1500]
PLACES = ((generator_fit, "LEARNING_RATE"), (adam, "DECAY"), (adam, "SQUARED_DECAY"))


def objective(generator: Any, *given: Any) -> float:
    """What a fit makes small, of the columns that it fits; `given` as `fit` takes it, from the start marginals on."""
    start, measured, sums, derived, rules = given
    read = {name for m in measured for name in (m.pair.one, m.pair.other)} | rules.read
    read |= {name for one in sums for name in one.critic.columns_read}
    part = generator.part(read | {name for inputs in derived.inputs.values() for name in inputs})
    with torch.no_grad():
        loss = generator_fit._Loss(part, start, measured, sums, derived, rules).of(part.by_bin())
        return float(loss + (part.common.square().sum() + part.own.square().sum()) / 2 / part.points)


def main() -> None:
    """Print a markdown table for each count of rows and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[4000])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[3.7])
    given, fit = parser.parse_args(), generator_fit.fit

    def fitted(
        generator: Any, start: Any, measured: Any, steps: int, sums: Any, derived: Any, rules: Any, _: Any
    ) -> None:
        before = [getattr(module, name) for module, name in PLACES]
        for setting in SETTINGS:
            found = []
            for count in STEPS:
                for (module, name), value in zip(PLACES, setting, strict=True):
                    setattr(module, name, value)
                one = generator.on(
                    {n: generator.base[:, generator.spans[n]].numpy() for n in generator.names}, fitted=False
                )
                fit(one, start, measured, count, sums, derived, rules, lambda done, of: None)
                found.append(f"{objective(one, start, measured, sums, derived, rules):,.0f}")
            print(f"| {setting[0]:g}, {setting[1]:g}, {setting[2]:g} | {' | '.join(found)} |", flush=True)
        for (module, name), value in zip(PLACES, before, strict=True):
            setattr(module, name, value)

    training.__dict__["fit"] = fitted  # where the method looks it up
    for rows in given.rows:
        table = simulate.cohort(rows, 3)
        for epsilon in given.epsilons:
            print(f"\n{rows:,} rows, epsilon {epsilon:g}\n\n| rate, decays | {' | '.join(map(str, STEPS))} |")
            print("|" + " --- |" * (1 + len(STEPS)))
            schema = medsynth.Schema.from_yaml(simulate.schema_text())
            medsynth.fit(table, epsilon=epsilon, delta=1e-5, rows=rows, schema=schema)


if __name__ == "__main__":
    main()
