"""A node that runs containers as processes: each pod in user, network and mount namespaces of its own, with the command
lines, environment, volumes, tokens, users and probes of its containers. It needs no privileges, but a machine that lets
users make namespaces (`sandbox.is_allowed`)."""
