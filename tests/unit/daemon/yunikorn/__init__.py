"""The REST API of the peer, on a real core whose time passes only when it is told to."""
