"""What is allowed and what is changed: reviews in, decisions out. Pure: no clock, loop, randomness, logging or I/O."""
