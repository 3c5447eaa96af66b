"""The real API server of the contract, where there is one."""

from tests.kubernetes.contract.conftest import servers

__all__ = ["servers"]
