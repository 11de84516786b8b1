"""Tests of coranet.data.datasets."""
