"""Tests of `schedulerd.config`."""
