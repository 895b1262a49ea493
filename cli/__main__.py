"""`python -m medsynth_cli`."""

from .main import main

main()
