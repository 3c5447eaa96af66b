"""The order in which nodes are tried for an ask, and whether a whole gang has room on them."""
