"""The slow and obvious way to decide what the core decides fast, shared by the simulator and the property tests."""
