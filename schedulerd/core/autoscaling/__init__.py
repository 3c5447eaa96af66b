"""Outstanding asks: what a larger cluster would run (SI 2021-02 `AutoScalingMetrics`).

The package has no state and changes nothing: the result is computed from pending classes on demand.
"""
