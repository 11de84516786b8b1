"""Tests of coranet.engine.timing."""
