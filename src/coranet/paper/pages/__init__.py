"""The parts of README and docs that are made from finished runs in `results/`: numbers by code, words by hand."""
