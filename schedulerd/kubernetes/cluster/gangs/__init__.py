"""Gangs: three ways to declare one, and one way through.

| module | is |
|---|---|
| `model` | a gang, its task groups, and a slot for each placeholder |
| `declaration` | which gang a pod declares or belongs to |
| `late_declaration` | pods wait for the one that declares the task groups of their application |
| `earlier_run` | pods wait for the end of an earlier run of their application |
| `placeholder_pods` | names and bodies of placeholder pods |
| `surplus` | members get nodes: how many placeholders are still needed |
| `door` | what pods and applications ask first: whether there is a gang |
| `membership` | pods join and leave gangs |
| `slots` | placeholders are created or asked for, and given up |
| `forming` | a gang is formed of the pods that there are |
| `life` | the stages of a gang, to its end |
| `answers` | what the daemon says of virtual placeholders, and when the time of a gang is over |
| `waiting` | whether a gang waits for room, or for quota and its start |

| stage | real pods | left by |
|---|---|---|
| FORMING | are held; the application is not added | enough pods exist |
| RESERVING | are held | every placeholder is asked for, or the gang is given up |
| OPEN | are asked for; the daemon lets them wait for placeholders | the gang is given up, or the last pod leaves |
| OVER | are asked for like any others | a new pod after all others have left |
"""
