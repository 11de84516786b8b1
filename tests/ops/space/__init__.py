"""Tests of coranet.ops.space."""
