"""Mutants: the core, broken on purpose, to show that the tests notice.

`mutant.py` says what a mutant is, `changes.py` how it is put into the running core, `finders.py` what has to find it,
and the modules `of_*.py` list them by what they are about. `python -m tests.mutants` plays them.
docs/internals/invariants.md says how to add one.
"""
