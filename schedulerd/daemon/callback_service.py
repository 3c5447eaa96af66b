"""The gRPC method of `schedulerd.v1.Callback`.

What it promises is written in `protos/schedulerd/v1/callback.proto`, where clients read it.
"""

from __future__ import annotations

import grpc

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd.daemon.callback_stream import METHOD, CallbackStream
from schedulerd.daemon.callbacks import Callbacks
from schedulerd.daemon.owner import Owner
from schedulerd.daemon.request_limits import RequestLimits
from schedulerd.daemon.rm_sessions import RmSessions
from schedulerd.daemon.stream_call import ServicerContext
from schedulerd.observe.callback_tally import CallbackTally

CALLBACK_SERVICE = callback_pb2.DESCRIPTOR.services_by_name["Callback"].full_name


class CallbackService:
    """Opens callback streams. One object serves all resource managers."""

    def __init__(
        self, callbacks: Callbacks, tally: CallbackTally, links: RmSessions, owner: Owner, limits: RequestLimits
    ) -> None:
        self._callbacks = callbacks
        self._tally = tally
        self._links = links
        self._owner = owner
        self._parse = limits.parser(callback_pb2.CallbackAnswer)

    async def connect(self, _requests: object, context: ServicerContext) -> None:
        """Returns or aborts when the stream is over."""
        stream = CallbackStream(self._callbacks, self._tally, self._links, self._owner, context, self._parse)
        await stream.run()

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """All methods, to be added to a `grpc.aio` server; they pass bytes, as those of the update streams do."""
        return [
            grpc.method_handlers_generic_handler(
                CALLBACK_SERVICE, {METHOD: grpc.stream_stream_rpc_method_handler(self.connect)}
            )
        ]
