"""The pure cluster and the metadata of pods and namespaces."""
