"""Nodes: registration, changes, draining and removal.

`handlers/` handles what resource managers report of nodes, of what runs there already, and of real use;
`rules/` recommends what a node should offer.
"""
