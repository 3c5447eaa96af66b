"""What people read of pods that wait, and how often it is written."""
