"""Tests of how the shim gets its credentials."""
