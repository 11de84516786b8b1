"""Tests of coranet.nets."""
