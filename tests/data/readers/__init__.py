"""Tests of coranet.data.readers."""
