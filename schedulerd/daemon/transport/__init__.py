"""How resource managers talk to the scheduler: the gRPC server, `si.v1.Scheduler` and `schedulerd.v1.Callback`.

Holds the server (`grpc_server`, `health`), the two services (`scheduler_service`, `callback_service`), their streams
(`stream_call`, `update_stream`, `callback_stream`), the limits of a request (`request_limits`), and what is sent on
callback streams (`callbacks`, `calls`, `event_courier`).

May import `sessions`, `access`, `files` and `runtime`, but not `admin`.
"""
