"""A fake Kubernetes API server for tests: in memory, on the event loop of the test, with faults on demand.

It does what a shim sees of a real one, and nothing else; `tests/kubernetes/contract` proves that on a real server, and
`docs/kubernetes-fake.md` lists what is different on purpose.
"""

from tests.kubernetes.fake.cluster import FakeCluster
from tests.kubernetes.fake.faults import Fault, Faults

__all__ = ["FakeCluster", "Fault", "Faults"]
