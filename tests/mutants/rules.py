"""The rules of the core and of the Kubernetes shim that mutants break, each as a sentence that holds."""

from __future__ import annotations

from enum import Enum


class Rule(Enum):
    # Time
    ALARMS = "an alarm rings once, at its time, and not at all when it is cancelled"
    DEADLINES = "every state that ends by itself has its alarm, and nothing that is gone has one"
    RETRIES = "an ask is tried again when something changed for it, and not sooner than it may be"
    # Amounts
    LEDGERS = "a ledger is the sum of what it counts"
    ROOM = "a node is given as much as it has, and no more"
    QUOTAS = "a queue uses as much as its max allows, with what is reserved and promised there, and no more"
    LIMITS = "users and groups use as much as their limits allow, and no more"
    MAX_APPLICATIONS = "so many applications run as may, and no more"
    # Waiting
    PENDING_INDEX = "every pending ask can be found from the root, or is left out for a reason that holds"
    BLOCKS = "a block is lifted when its cause is gone, wherever it was propagated"
    QUEUE_ORDER = "the next ask is that of sorting everything anew"
    NODE_ORDER = "an ask gets the first node in order that has room"
    STATE_AWARE = "in a state-aware leaf one application starts at a time, the first submitted"
    # Applications
    APPLICATION_STATES = "an application is in the state that its asks and allocations call for"
    RELEASES = "the resource manager is told once what became of an ask and of an allocation, as it was"
    VIEWS = "what is shown is what is so"
    QUEUE_FILE = "queues are what the queue file says, and drain when it does not name them"
    STOPPED_QUEUES = "a queue that is stopped takes nothing new until it is started, whatever file comes"
    RECOVERY = "an existing allocation is taken over once, and is checked like any other"
    EARLY_ITEMS = "what comes too early waits for its application, in order and for its time"
    # Gangs
    GANG_GATE = "a gang starts when quotas and limits have room for all of it, with what others were promised"
    GANG_FIRST = "real asks wait for the placeholders of their gang, and get their room"
    GANG_TIME = "a gang that is not complete in time ends as its style says"
    GANG_DEADLOCK = "in a gang deadlock later gangs give way to the first, and are asked for again"
    DECLARED_GANGS = "a gang that declares its task groups has the slots that it needs, and is told when it is short"
    TOPOLOGY = "a gang is in the domains that it requires, and in few that it prefers, with all its members"
    PLANS = "a plan holds as a whole, or nothing of it happens"
    WHOLE_GANGS = "a gang preempts as a whole, and is preempted as a whole if it says so"
    GANG_COUNTS = "a gang counts what became of its placeholders"
    # Preemption
    ENTITLEMENT = "an ask is entitled to what its queues are guaranteed and do not use, below every fence and limit"
    GUARANTEES = "no victim is taken out of the guarantee of its queues"
    PRIORITIES = "no victim outranks the ask where their paths meet"
    PROTECTION = "what is opted out, leaving, or bound to its node is no victim"
    LEAST_COST = "the victims are a set of least cost, and none of them is needless"
    PREEMPTED = "whoever is entitled has others preempted, when its delay is over"
    # Reservations
    RESERVED_ROOM = "reserved room is for its ask alone, and for others when the reservation ends"
    RESERVATION_ENDS = "a reservation lasts as long as it helps, and no longer than its time"
    RESERVATION_FACTS = "each reservation ends for the reason that is told"
    # Constraints and predicates
    AFFINITY = "as many are together as their constraints allow, and no more"
    ATTRIBUTES = "an ask runs on nodes whose attributes are as it demands, and where it prefers if it can"
    PREDICATES = "what the resource manager refused is tried again when that may have changed, and only there"
    # The Kubernetes shim: pods
    SHIM_ASKS = "a pod is asked for while it needs a node, as it is now, and not when it cannot have one"
    SHIM_CLASSES = "what nodes alone decide needs no question, and everything else is asked about"
    SHIM_PREDICATES = "an allocation is judged again by all predicates, with what is assumed already"
    SHIM_BINDINGS = "a pod is bound once, and elsewhere if its node will not have it"
    SHIM_ENDS = "what a pod held is given back when it ends, and the end that the daemon wants is confirmed"
    SHIM_RESIZES = "an allocation has the amounts of its pod"
    SHIM_NODES = "the daemon knows every node, with all that runs there"
    SHIM_APPLICATIONS = "an application is added for its pods, again after a failure, and goes with the last of them"
    SHIM_IDS = "an application id belongs to its namespace"
    SHIM_NAMESPACES = "applications follow the quotas of their namespace"
    SHIM_REASONS = "a pod that waits says why, soon, at a bounded rate, and not twice"
    SHIM_REPORTS = "what was asked for and what runs is reported again to a daemon that has lost it"
    # The Kubernetes shim: gangs
    SHIM_GANGS = "real pods of a gang wait for the room of all of it, and the daemon is told what that is"
    SHIM_PLACEHOLDERS = "placeholders are made once, made again when they are lost, and go with their gang"
    SHIM_HELD_ROOMS = "the room that is held for a member counts as the member it is for, until that has it"
    SHIM_GANG_TIME = "a gang that cannot have its placeholders in time ends as its style says, once"
    # The Kubernetes shim: its API client
    SHIM_WATCHES = "objects are told as they are stored, also after a gap"
    SHIM_WRITES = "a write is done once; its conflicts and lost answers are looked up"
    SHIM_WRITE_RATE = "writes leave by urgency, as many as may, and later if the server says so"
