"""Tests of coranet.data.splits."""
