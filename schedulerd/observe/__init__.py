"""What can be seen from outside: metrics and log lines, both projections of the stream of facts."""
