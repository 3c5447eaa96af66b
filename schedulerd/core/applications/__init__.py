"""Applications, their asks and their allocations, from submission until they are forgotten.

`rules/` say in which queue an application belongs, and `handlers/` handle what resource managers send about
applications, asks and releases, and create and remove dynamic queues. How an application moves between
states, and how an ask or allocation is added or goes, is in `state.actions`, because other features cause it as well.
"""
