"""Tests of coranet.runs.machine."""
