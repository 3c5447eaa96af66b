"""The gRPC method of `schedulerd.v1.Callback`.

`protos/schedulerd/v1/callback.proto` describes it for clients.
"""

from __future__ import annotations

import grpc

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.sessions.rm_sessions import RmSessions
from schedulerd.daemon.transport.callback_stream import METHOD, CallbackStream
from schedulerd.daemon.transport.callbacks import Callbacks
from schedulerd.daemon.transport.request_limits import RequestLimits
from schedulerd.daemon.transport.stream_call import ServicerContext
from schedulerd.observe.callback_tally import CallbackTally

CALLBACK_SERVICE = callback_pb2.DESCRIPTOR.services_by_name["Callback"].full_name


class CallbackService:
    """Opens callback streams. One object serves all resource managers."""

    def __init__(
        self,
        callbacks: Callbacks,
        tally: CallbackTally,
        access: GrpcAccess,
        sessions: RmSessions,
        owner: Owner,
        limits: RequestLimits,
    ) -> None:
        self._callbacks = callbacks
        self._tally = tally
        self._access = access
        self._sessions = sessions
        self._owner = owner
        self._parse = limits.parser(callback_pb2.CallbackAnswer)

    async def connect(self, _requests: object, context: ServicerContext) -> None:
        """Returns or aborts when the stream is over."""
        stream = CallbackStream(
            self._callbacks, self._tally, self._access, self._sessions, self._owner, context, self._parse
        )
        await stream.run()

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """The handlers of all methods, to be added to a `grpc.aio` server. Messages are bytes, as in update streams."""
        return [
            grpc.method_handlers_generic_handler(
                CALLBACK_SERVICE, {METHOD: grpc.stream_stream_rpc_method_handler(self.connect)}
            )
        ]
