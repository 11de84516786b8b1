"""Tests of coranet.paper."""
