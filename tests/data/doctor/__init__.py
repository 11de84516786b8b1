"""Tests of coranet.data.doctor."""
