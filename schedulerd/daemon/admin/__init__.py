"""What operators see and change: the gRPC service `schedulerd.v1.Admin`, and the HTTP port.

Holds the methods of the service (`admin_service`, `state_service`, `event_service`), the HTTP server with its paths
(`http`, `http_access`, `http_connections`), and what both show (`debug_state`, `state_queries`,
`scrapes`).

May import `access`, `files` and `runtime`, but not `transport` and `sessions`.
"""
