"""Tests of coranet.runs."""
