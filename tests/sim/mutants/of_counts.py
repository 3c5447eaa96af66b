"""Breaks of what is counted and compared: amounts, quotas, limits, kept room, nodes and orders."""

from __future__ import annotations

from tests.sim.mutants.mutation import ORDER, Mutant, Proof, Seed

MUTANTS = (
    # What is used, and what may be
    Mutant(
        "several are subtracted as one",
        "resources",
        "left = self[name] - amount * times",
        "left = self[name] - amount",
        Seed(1, 73),
    ),
    Mutant(
        "a quota gives one more than it has",
        "resources",
        "used.get(name, 0) + amount > limit:",
        "used.get(name, 0) + amount > limit + 1:",
        Seed(5, 73),
    ),
    Mutant(
        "a quota keeps one back",
        "resources",
        "used.get(name, 0) + amount > limit:",
        "used.get(name, 0) + amount >= limit:",
        Seed(3, 73),
    ),
    Mutant(
        "an exact fit is none", "resources", "if amount > get(name, 0):", "if amount >= get(name, 0) > 0:", Seed(1, 73)
    ),
    Mutant(
        "what is claimed does not count in a quota",
        "quotas.rules",
        "queue.max.exceeded_by(queue.allocated.plus(_reserved_by_others(queue, own)), items)",
        "queue.max.exceeded_by(queue.allocated, items)",
        Proof(
            "unit.core.handlers.test_quota_claims",
            "test_the_quota_that_came_free_is_kept_for_who_paid_for_it",
        ),
    ),
    Mutant(
        "headroom forgets claims",
        "quotas.rules",
        "queue.max.left(queue.allocated.plus(queue.quota_reserved))",
        "queue.max.left(queue.allocated)",
        Seed(7, 180),
    ),
    Mutant(
        "one application too many runs in a queue",
        "quotas.rules",
        "queue.max_applications and queue.running >= queue.max_applications:",
        "queue.max_applications and queue.running > queue.max_applications:",
        ORDER,
    ),
    Mutant(
        "promises do not count at the gate",
        "quotas.rules",
        "queue.max.exceeded_by(queue.allocated.plus(queue.gang_quota_promised), gate)",
        "queue.max.exceeded_by(queue.allocated, gate)",
        Seed(12, 120),
    ),
    Mutant(
        "a raised max stays what it was",
        "model.queue",
        "        self.max = spec.max\n",
        "        self.max = spec.max.tightest(self.max)\n",
        Seed(2, 73),
    ),
    Mutant(
        "a queue that drains takes applications",
        "model.queue",
        "queue.draining = draining",
        "queue.draining = False",
        Seed(33, 140),
    ),
    Mutant(
        "the second to come has the turn",
        "model.queue",
        "return min(waiting, key=lambda one: one.serial, default=None)",
        "return max(waiting, key=lambda one: one.serial, default=None)",
        Seed(50, 220),
    ),
    Mutant(
        "one application too many runs for a user",
        "quotas.rules",
        "limit.max_applications and running >= limit.max_applications:",
        "limit.max_applications and running > limit.max_applications:",
        Seed(9, 180),
    ),
    Mutant(
        "users are groups",
        "quotas.rules",
        "ledger = (usages.groups if is_group else usages.users).find",
        "ledger = (usages.users if is_group else usages.groups).find",
        Seed(3, 120),
    ),
    Mutant(
        "an application that ended still runs for its user",
        "commit",
        "ledger.applications.pop(application.application_id, None)",
        "pass",
        Seed(1, 73),
    ),
    Mutant("an application that ended still runs in its queues", "commit", "one.running -= 1", "pass", Seed(1, 73)),
    Mutant(
        "what a user frees is still used", "commit", "        ledger.usage.subtract(items)", "        pass", Seed(1, 73)
    ),
    Mutant(
        "a release is forgotten on its node", "commit", "    node.allocated.subtract(items)", "    pass", Seed(1, 73)
    ),
    Mutant(
        "freed quota wakes nobody",
        "commit",
        "    partition.note_free_node(node)\n    partition.note_free_quota(queue)\n    _rekey",
        "    partition.note_free_node(node)\n    _rekey",
        Seed(2, 73),
    ),
    Mutant(
        "a freed node wakes nobody",
        "commit",
        "    partition.note_free_node(node)\n    partition.note_free_quota(queue)\n    _rekey",
        "    partition.note_free_quota(queue)\n    _rekey",
        Seed(2, 120),
    ),
    Mutant(
        "a gang still holds what went",
        "commit",
        "        application.gang.held.subtract(items)",
        "        pass",
        Seed(1, 73),
    ),
    Mutant(
        "what waits for a placeholder waits on",
        "commit",
        "        application.awaiting_placeholder -= 1",
        "        pass",
        Seed(1, 73),
    ),
    Mutant(
        "a promise stays when the gang is over",
        "commit",
        "            one.gang_quota_promised.subtract(gang.promised.items())",
        "            pass",
        Seed(1, 73),
    ),
    # Room that is kept, and about to be free
    Mutant(
        "a victim is counted twice",
        "commit_room",
        "        one.leaving.add(items, times)",
        "        one.leaving.add(items, 2 * times)",
        Seed(1, 73),
    ),
    Mutant(
        "who makes room never stops to",
        "commit_room",
        "        victim.makes_room = None",
        "        pass",
        Seed(24, 90),
    ),
    Mutant(
        "a claim stays when its room is given up",
        "commit_room",
        "            one.quota_reserved.subtract(reservation.items)",
        "            pass",
        Seed(3, 73),
    ),
    Mutant(
        "the wait for room starts with the reservation",
        "commit_room",
        "reservation.asked_to_end_ns = now_ns",
        "reservation.asked_to_end_ns = reservation.made_at_ns - 1",
        Seed(13, 180),
    ),
    Mutant(
        "what is given back wakes nobody",
        "commit_room",
        "        partition.note_less_kept(node)",
        "        pass",
        Seed(2, 120),
    ),
    Mutant(
        "a result is waited for for ever",
        "commit_room",
        "    ask.predicate_history.predicate_reserved -= predicate_check.takes_one",
        "    pass",
        Seed(9, 73),
    ),
    # Nodes and constraints
    Mutant(
        "a node that is not ready takes daemons",
        "model.partition",
        "if node.ordered or (request_class.required_node == node.node_id and node.ready):",
        "if node.ordered or request_class.required_node == node.node_id:",
        Seed(47, 240),
    ),
    Mutant(
        "a node that others occupy has room",
        "model.node",
        "self.available = self.capacity.minus(self.occupied).minus(self.allocated)",
        "self.available = self.capacity.minus(self.allocated)",
        Seed(1, 120),
    ),
    Mutant(
        "a block does not hear of more room",
        "model.node_order",
        "        block.raise_bound(node.free)\n        if len",
        "        if len",
        Seed(1, 120),
    ),
    Mutant(
        "a misfit is one for ever",
        "model.node_order",
        "            self.misfits.clear()\n\n    def tighten",
        "            self.misfits.copy()\n\n    def tighten",
        Seed(17, 180),
    ),
    Mutant("one less may be together", "model.affinity", "after <= self._most)", "after < self._most)", Seed(21, 120)),
    Mutant(
        "one more may be together", "model.affinity", "after <= self._most)", "after <= self._most + 1)", Seed(9, 180)
    ),
    Mutant(
        "company that left still counts",
        "model.constraints",
        "        self._count(allocation, -1)",
        "        pass",
        Seed(9, 120),
    ),
    Mutant(
        "company does not move with its node",
        "model.constraints",
        "                self._count_there(node, scope, 1)",
        "                pass",
        Seed(20, 120),
    ),
    # Who comes first
    Mutant(
        "what is pending counts as used in the order of queues",
        "decide.shares",
        "    share, most_pending = shares(allocated, guaranteed), -sum(pending.values())",
        "    share, most_pending = shares(pending, guaranteed), -sum(pending.values())",
        ORDER,
    ),
    Mutant(
        "priority does not count in a leaf",
        "decide.shares",
        "return (rank, serial) if properties.priority_sort else (serial, rank)",
        "return (serial, rank)",
        ORDER,
    ),
    Mutant("a smaller share comes last", "decide.shares", "found.sort(reverse=True)", "found.sort()", ORDER),
    Mutant(
        "priority is not passed on",
        "model.parent_entity",
        "        if is_news and self.parent_entity is not None:",
        "        if is_news and self.parent_entity is None:",
        ORDER,
    ),
)
