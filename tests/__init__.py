"""The tests of coranet, in one thread each: several run beside each other, and so do the processes that they start."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # read by NumPy and PyTorch when they are imported, and never again
