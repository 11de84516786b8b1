"""Tests of coranet.cli.terminal."""
