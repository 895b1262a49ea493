"""Opacus' accountants without its training engine, whose imports take seconds and are not needed here."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

ACCOUNTANTS, ENGINE = "opacus.accountants", "opacus.optimizers"


def accountants() -> Any:
    """The module `opacus.accountants`, Opacus' own code to the last line. Raises ImportError where there is none.

    It names one class of the engine, in an annotation: an empty module stands in for the engine while it is imported.
    """
    if ACCOUNTANTS in sys.modules:
        return sys.modules[ACCOUNTANTS]
    found = importlib.util.find_spec("opacus")
    if found is None or "opacus" in sys.modules:
        return importlib.import_module(ACCOUNTANTS)
    engine = ModuleType(ENGINE)
    vars(engine)["DPOptimizer"] = object
    sys.modules |= {"opacus": importlib.util.module_from_spec(found), ENGINE: engine}
    try:
        return importlib.import_module(ACCOUNTANTS)
    finally:
        del sys.modules["opacus"], sys.modules[ENGINE]
