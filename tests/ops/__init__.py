"""Tests of coranet.ops."""
