"""The command line in tests: without a process of its own, and without a terminal."""

from medsynth_cli.main import app
from typer.testing import CliRunner, Result


def run(*words: object) -> Result:
    """Run `medsynth` with these words."""
    return CliRunner().invoke(app, [str(word) for word in words])


def good(*words: object) -> Result:
    """Run `medsynth` with these words, which it must do without an error."""
    result = run(*words)
    assert result.exit_code == 0, (words, result.output)
    return result
