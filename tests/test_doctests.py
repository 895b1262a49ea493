"""The examples in docstrings print what they show."""

import doctest
import importlib
import pkgutil

import medsynth


def test_the_examples_of_all_modules() -> None:
    tried = 0
    for found in pkgutil.walk_packages(medsynth.__path__, "medsynth."):
        result = doctest.testmod(importlib.import_module(found.name))
        assert result.failed == 0, found.name
        tried += result.attempted
    assert tried >= 70, "examples are not found"
