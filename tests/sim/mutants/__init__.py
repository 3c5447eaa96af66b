"""Does the net catch fish? One-line breaks of the core's rules, each with the seed of the simulation that finds it.

`catalogue.py` lists them, `mutation.py` puts one into the core of a fresh process, and `python -m tests.sim.mutants`
plays them.
"""
