"""Tests of coranet.methods."""
