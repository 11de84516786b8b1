"""From a scan as it was taken to an array on one recorded grid, and from all of them to a store."""
