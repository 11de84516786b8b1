"""Tests of coranet.report.pictures."""
