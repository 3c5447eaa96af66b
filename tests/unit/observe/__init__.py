"""Tests of what is seen from outside."""
