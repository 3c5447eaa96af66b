"""Translation between the scheduler interface on the wire and the core's commands and facts.

The only package that is bilingual: nothing else knows protobuf messages and commands or facts at the same time.
"""
