"""Tests of tasks of a cluster."""
