"""Tests of the API client against the fake."""
