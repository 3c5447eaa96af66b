"""What holds for every test.

Property tests draw the same examples in every run and on every machine and have no per-example deadline: a failure is
then always a change in the code, never luck or a slow host.
"""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None, print_blob=True)
settings.load_profile("repeatable")
