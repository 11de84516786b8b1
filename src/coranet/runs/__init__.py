"""Runs by name: presets, and the way from a folder of scans to a finished run."""
