"""The admission webhooks of `schedulerd admission`: what the API server asks before it stores an object.

    kube-apiserver ──AdmissionReview over TLS──▶ server ─▶ rules (pure) ─▶ answer: allowed, patch, warnings
                                                   │
                      namespaces, certificates, queue files, the impact that the daemon tells

`rules` decides and does no I/O. Everything else brings what the rules need, and bounds what comes from outside.
"""
