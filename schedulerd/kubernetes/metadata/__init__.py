"""Labels and annotations by which people tell the scheduler what they want, on pods, namespaces and priority classes.

Names begin with `schedulerd.io/` or with `yunikorn.apache.org/`; where both are given, the former wins. Pure: objects
in, values out.
"""
