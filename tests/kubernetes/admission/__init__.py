"""The admission webhooks: rules, server, certificates, and stories on a real API server."""
