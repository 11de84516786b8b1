"""Tests of coranet.uncertainty."""
