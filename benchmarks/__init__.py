"""How fast schedulerd places, how long an ask waits, and what it takes to do it: `python -m benchmarks --help`."""
