"""What a journal is good for: its history again, the story of one thing in it, and what would have been otherwise.

Everything here is made of the same two pieces: a scheduler, which is a pure function of its commands, and the commands.
Nothing talks to a running daemon.
"""
