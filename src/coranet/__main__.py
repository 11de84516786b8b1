"""So that `python -m coranet` works, as `torchrun -m coranet` does."""

from coranet.cli import main

main()
