"""Tests of coranet.engine.prediction."""
