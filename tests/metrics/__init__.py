"""Tests of coranet.metrics."""
