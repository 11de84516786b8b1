"""From raw scans to batches on the device."""
