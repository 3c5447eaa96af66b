"""Gangs: three ways to declare one, and one way through.

| module | is |
|---|---|
| `lifecycle` | the stages of a gang, as a table |
| `model` | a gang, its task groups, and a slot for each placeholder |
| `declaration` | which gang a pod declares or belongs to |
| `late_declaration` | pods wait for the one that declares the task groups of their application |
| `earlier_run` | pods wait for the end of an earlier run of their application |
| `declared` | what the daemon is told of a gang without placeholder pods |
| `holds` | the room that it holds for such a gang |
| `placeholder_pods` | names and bodies of placeholder pods |
| `surplus` | members get nodes: how many placeholders are still needed |
| `door` | what pods and applications ask first: whether there is a gang |
| `membership` | pods join and leave gangs |
| `slots` | placeholder pods are created, and given up |
| `forming` | a gang is formed of the pods that there are |
| `life` | the stages of a gang, to its end |
| `answers` | the daemon has placed the first placeholder, or the time of the gang is over |
| `waiting` | whether a gang waits for pods |
"""
