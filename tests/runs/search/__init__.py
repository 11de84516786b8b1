"""Tests of sweeps over settings."""
