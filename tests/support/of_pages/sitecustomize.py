"""Make the commands of a page quick whose output the page does not show. Python imports this file when it starts.

Reports have few trees and resamples, and networks are trained for few steps. `tests/support/blocks.py` puts this folder
on the path of such commands.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

TREES = {"BaseForest": "n_estimators", "BaseHistGradientBoosting": "max_iter"}
SIZES: dict[str, dict[str, Any]] = {
    "medsynth.report.data.statistics": {"DRAWS": 60},
    "medsynth.report.sections.fidelity": {"REPEATS": 1},
    "medsynth.report.sections.criteria": {"GUESSES": 200},
    "sklearn.ensemble._forest": {},
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting": {},
    "medsynth_cli.main": {},
}


def with_few_trees(family: Any, size: str) -> None:
    """Let a family of forests have ten trees at most."""
    true = family.fit

    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        setattr(self, size, min(getattr(self, size), 10))
        return true(self, *args, **kwargs)

    family.fit = fit


def change(module: ModuleType) -> None:
    """Change a module that was just imported."""
    vars(module).update(SIZES[module.__name__])
    for name, size in TREES.items():
        if hasattr(module, name) and module.__name__.startswith("sklearn."):
            with_few_trees(getattr(module, name), size)
    if module.__name__ == "medsynth_cli.main" and "fit" in sys.argv and {"--method", "--preset"} & {*sys.argv}:
        from quick_methods import quick_entries

        from medsynth.methods.registry import METHODS

        METHODS.update(quick_entries())


class Changed(Loader):
    """Imports a module as its own loader does, and changes it."""

    def __init__(self, true: Loader) -> None:
        self.true = true

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.true.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.true.exec_module(module)
        change(module)


class Finder(MetaPathFinder):
    """Finds the modules that are changed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        found = next((one for one in map(_spec(name, path), sys.meta_path) if one), None) if name in SIZES else None
        if found is not None and found.loader is not None:
            found.loader = Changed(found.loader)
        return found


def _spec(name: str, path: Any) -> Any:
    return lambda finder: None if isinstance(finder, Finder) else finder.find_spec(name, path)


sys.meta_path.insert(0, Finder())
