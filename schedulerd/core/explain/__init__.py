"""Why an ask waits: the whole chain of causes as plain values, and how to find it without holding the loop.

`values.py` has what is found. `rules` find it and change nothing, not even a cache. What takes longer than a fraction
of a millisecond (a walk over all nodes, over all groups of a queue) is a generator that stops after every few steps, so
that the daemon can serve others in between. Sentences are not made here.
"""
