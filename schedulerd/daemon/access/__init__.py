"""Identifies clients and lets their calls in, in the same way for every gRPC service.

Holds TLS and the names in certificates (`tls`, `certificate_names`), which client may use which rmID (`identity`,
`rm_ids`), the share of all streams that a client may have (`grpc_access`, `standard_streams`), the receipt of requests
within a size and a time (`request_reading`), handlers of methods with one request (`methods`), and reports of refused
calls to the operator (`refusals`).

May import `files` and `runtime`. It knows no service and no session.
"""
