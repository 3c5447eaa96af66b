"""Scenarios recorded from the peer, played on the core under a virtual clock.

`scenarios/` and `expected/` are the recordings as they came; `own/` holds scenarios of ours in the same format, where
the right answer is another one than the peer's. `scope.toml` says which of them this version promises to pass.
`rules.py` says after what a right answer is another one, in whatever scenario; `differences.toml` in which scenarios.
"""
