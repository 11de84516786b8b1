"""Tests of coranet.evaluation."""
