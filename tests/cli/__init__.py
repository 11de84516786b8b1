"""Tests of coranet.cli."""
