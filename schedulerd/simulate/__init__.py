"""A simulated resource manager: an outside client of the scheduler that asks, runs and releases pods over real gRPC.

It imports nothing of schedulerd but the generated protocol code, so that what it proves, it proves about the wire.
"""
