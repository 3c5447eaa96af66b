"""Tests of the Kubernetes shim, and the fake API server that they run against."""
