"""Kubernetes' filter plugins: may this pod run on that node, and if not, why not.

One module per plugin, each with `judge(pod, node, cluster, gone)`, which gives the plugin's refusals. `plugins` has
them in the order of kube-scheduler, `predicates` asks them. They read `cluster_state`, which `cluster_cache` keeps: it
is told of every object that changes, and of assumed pods, like kube-scheduler's cache. An answer costs the terms of the
pod, not the pods of the cluster: what a plugin would have to count is kept up to date by every change of a pod or node.
"""
