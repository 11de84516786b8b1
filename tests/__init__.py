"""The tests of coranet."""
