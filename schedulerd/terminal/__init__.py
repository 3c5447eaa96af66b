"""The commands that look at a running daemon: `explain`, `get`, `top`, `queue`, and `context`.

They are clients of its HTTP API (`/api/v1`) and of nothing else. Names and messages are other people's text: control
characters and marks that turn the direction of writing are removed before they reach a terminal (`words.py`).
"""
