"""Why something waits, in words: one function for each cause, for all that people read.

The REST APIs, `explain`, the page, dumps, events, the log, what a resource manager is told, and the conditions of pods
call the same function with the plain facts of the cause. What belongs to Kubernetes only (reasons of conditions, words
of kube-scheduler, volumes) is in `kubernetes.reasons`.

A function returns a clause, without a capital and a full stop, so that it can stand in a list or behind a colon;
`words.sentence` makes a sentence of it. Amounts are in the units of the interface, times in nanoseconds.
"""
