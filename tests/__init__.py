"""Tests of schedulerd; a package, so that tools below it run as `python -m tests.NAME`."""
