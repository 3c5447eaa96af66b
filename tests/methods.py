"""Every method that a client may call, by the descriptors: one that is added is tested without a line more."""

from __future__ import annotations

from schedulerd._generated.schedulerd.v1 import admin_pb2, callback_pb2
from schedulerd._generated.si.v1 import si_pb2

METHODS = [
    method
    for file in (si_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR, callback_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
]
