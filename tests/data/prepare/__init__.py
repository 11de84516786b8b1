"""Tests of coranet.data.prepare."""
