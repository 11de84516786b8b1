"""From a store to batches on the device: pools, windows cut from them, views drawn at random, and maps kept per case."""
