"""Kubernetes objects as the API server sends them: msgspec Structs with the fields that schedulerd reads.

Unknown fields are skipped, which makes decoding cheap. Every field has a default. A list or map that is absent and one
that is null are both None, as Go writes either. Structs are frozen: an object that changes is replaced as a whole.
`decode` has the readers, and what they say about an object that cannot be read.
"""
