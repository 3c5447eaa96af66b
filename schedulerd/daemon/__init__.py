"""The daemon around the scheduler: gRPC, HTTP, timers, signals.

`server.py` builds all parts and is the only module that knows all of them. The parts are in packages, and each may
import those below it: `yunikorn`, `transport` and `admin`, which do not know each other, then `sessions`, `access`,
`files`, `runtime`. The docstring of each package says what it holds; `lint-imports` checks the imports.

gRPC's C library would write its own lines to stderr, in its own format. Its errors reach us as exceptions, which are
logged, so the library is silenced unless the environment sets its verbosity. This must happen before it is loaded.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
