"""schedulerd: a deterministic batch scheduler daemon that speaks the YuniKorn scheduler interface."""

__version__ = "0.1.0"
