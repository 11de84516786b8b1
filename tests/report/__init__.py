"""Tests of coranet.report."""
