"""Tests of coranet.feed."""
