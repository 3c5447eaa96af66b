"""The shell around the scheduler: gRPC, HTTP, timers, signals.

gRPC's C library would write lines of its own to stderr, in its own format. Its errors reach us as exceptions and are
logged as such, so it is kept quiet unless the environment asks for more, which has to be settled before it is loaded.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
