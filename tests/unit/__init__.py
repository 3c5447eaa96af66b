"""Tests of one module at a time; the tree mirrors schedulerd/."""
