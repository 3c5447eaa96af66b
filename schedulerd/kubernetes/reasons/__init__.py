"""Why a pod waits, for its user: from structure to kube-scheduler's sentence, counted nodes, and the rate of writes.

Pure. The daemon says what an ask waits for as data (`waiting`), nodes are counted by the shim's own predicates
(`node_counts`), the words are made here (`sentences`), and what is to be written waits in `pod_reason`. No text is
parsed. `cluster.conditions` joins these with the pods.
"""
