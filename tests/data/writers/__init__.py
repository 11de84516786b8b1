"""Tests of coranet.data.writers."""
