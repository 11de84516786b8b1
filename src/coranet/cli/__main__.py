"""So that `python -m coranet.cli` works where the command is not installed."""

from coranet.cli import main

main()
