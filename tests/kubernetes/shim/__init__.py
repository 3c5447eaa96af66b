"""The shim as a whole, with a real daemon, on the fake API server and on a real one."""
