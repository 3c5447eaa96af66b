"""Settings in layers: flags, environment, a YAML file and defaults, for any pydantic model of settings.

The daemon and the commands that are clients of it read theirs with this package, so that a setting is given, checked
and reported in the same way everywhere. It knows no setting.
"""
