"""`python -m medsynth_cli`."""

from .app import main

main()
