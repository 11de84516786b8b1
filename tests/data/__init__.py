"""Tests of coranet.data."""
