"""How others train, as small loops to be timed beside ours in one run on one machine.

Written from published descriptions in our own words; no line is theirs. Each loop is plain PyTorch as its authors run it:
eager, fp32, channels first, the batch made on the host. `bf16` is the same under autocast.
"""
