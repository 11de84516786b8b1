"""Tests of coranet.engine."""
