"""All nodes as a heat map: a square a node, by rack if racks are known."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from schedulerd.core.language.lifecycles import NodeState
from schedulerd.core.state.model.node import Node
from schedulerd.daemon.admin.ui.addresses import PREFIX
from schedulerd.daemon.admin.ui.bars import SHADES, shade
from schedulerd.daemon.admin.ui.context import Context
from schedulerd.daemon.admin.ui.pages.head import add_head
from schedulerd.daemon.admin.ui.pages.node_map import MARKS, PATHS, WIDTH, Square, draw
from schedulerd.daemon.admin.ui.slices import page_of
from schedulerd.daemon.admin.ui.texts import count, percent, row_key, visible
from schedulerd.daemon.admin.ui.view import View

PARAMS = ("name", "state", "use", "rack", "attribute", "from")
LINKED_MAX = 300
"""With more nodes that match, the links are those of racks, not of nodes."""
DRAWN_MAX = 6_000
"""Nodes on one page."""
RACK_ATTRIBUTES = ("si/rackname", "topology.kubernetes.io/rack", "topology.kubernetes.io/zone", "si/zone")
"""Attributes by which nodes are grouped: the first that a node has."""
STATES = ("schedulable", "draining", "not_ready", "reserved")
USES = {"low": (0, 3), "medium": (4, 7), "high": (8, SHADES)}
"""Ranges of shades."""
_A_TURN = 32


def view(context: Context) -> Generator[None, None, View]:
    """The view."""
    made = View("Nodes", "nodes.html")
    counts = yield from add_head(made, context)
    params = context.params
    by_rack: dict[str, list[tuple[Node, int]]] = {}
    by_shade = [0] * (SHADES + 1)
    for number, node in enumerate(list(context.place.partition.nodes.values())):
        if number % _A_TURN == 0:
            yield
        level = shade(*dominant(node)[1:])
        if _keeps(
            node,
            level,
            params.get("name", "").lower(),
            params.get("state", ""),
            params.get("use", ""),
            params.get("attribute", ""),
        ) and params.get("rack", "") in ("", rack_of(node)):
            by_shade[level] += 1
            by_rack.setdefault(rack_of(node), []).append((node, level))
    kept: list[tuple[str, Node, int]] = []
    for rack in sorted(by_rack):
        kept += [(rack, *one) for one in sorted(by_rack[rack], key=lambda one: one[0].node_id)]
        yield
    is_large = len(kept) > LINKED_MAX
    part = page_of(params.get("from", ""), len(kept), DRAWN_MAX if is_large else LINKED_MAX)
    filters = {name: params.get(name, "") for name in PARAMS if name != "from"}
    racks: dict[str, str] = {}
    if is_large:
        yield from _add_drawing(made, context, kept[part.first : part.end], filters)
    else:
        made.fixed["map"] = None
        for number, (rack, node, level) in enumerate(kept):
            if number % _A_TURN == 0:
                yield
            key = f"rack-{row_key(rack)}"
            racks[key] = visible(rack)
            _add_square(made, context, key, node, level)
    most = max(by_shade, default=0)
    made.begin("shades")
    for level, number in enumerate(by_shade):
        label = "empty" if not level else f"to {level * 100 // SHADES} %"
        made.add(
            "shades",
            row_key(level),
            label=label,
            square__class=f"sq s{level}",
            count=count(number),
            bar__class=f"u w{percent(number, most) if most else 0}",
        )
    made.put(
        matching=f"{count(len(kept))} of {count(counts.nodes)} nodes",
        part=part.said,
    )
    links = context.links
    made.fixed |= {
        "racks": list(racks.items()),
        "filters": {name: visible(text) for name, text in filters.items()},
        "states": STATES,
        "uses": list(USES),
        "is_filtered": any(filters.values()),
        "show_all": links.to("nodes"),
        "paging": part.links(lambda first: links.to("nodes", **filters, **{"from": first})),
    }
    return made


def dominant(node: Node) -> tuple[str, int, int]:
    """The resource of which the largest share is used, how much is used, and how much there is for pods of ours."""
    best = ("", 0, 1)
    for name, offered in node.capacity.items():
        whole = offered - node.occupied[name]
        used = node.allocated[name]
        if whole > 0 and used * best[2] > best[1] * whole:
            best = (name, used, whole)
    return best


def rack_of(node: Node) -> str:
    """Where the node stands; '' if nothing says it."""
    return next((node.attributes[name] for name in RACK_ATTRIBUTES if name in node.attributes), "")


def _keeps(node: Node, level: int, name: str, state: str, use: str, attribute: str) -> bool:
    if name and name not in node.node_id.lower():
        return False
    if state == "reserved":
        if not node.reservations:
            return False
    elif state and state != node.state.value:
        return False
    if use in USES and not USES[use][0] <= level <= USES[use][1]:
        return False
    key, _, value = attribute.partition("=")
    return not key or node.attribute(key) == value


def _marks(node: Node) -> list[str]:
    marks = [] if node.state is NodeState.SCHEDULABLE else [node.state.value]
    return [*marks, "reserved"] if node.reservations else marks


def _add_drawing(
    made: View, context: Context, kept: list[tuple[str, Node, int]], filters: Mapping[str, str]
) -> Generator[None, None, None]:
    by_rack: dict[str, list[Square]] = {}
    for rack, node, level in kept:
        by_rack.setdefault(rack, []).append(Square(level, [one for one in _marks(node) if one in MARKS]))
    drawing = yield from draw(by_rack, visible)
    made.put(**{f"{name}__d": path for name, path in drawing.paths.items()})
    links = [context.links.to("nodes", **{**filters, "rack": rack}) if rack else "" for rack in by_rack]
    hrefs = [one.removeprefix(f"{PREFIX}/nodes") for one in links]  # there are many of them
    made.fixed["map"] = {
        "width": WIDTH,
        "height": drawing.height,
        "paths": PATHS,
        "labels": [(x, y, name, href) for (x, y, name), href in zip(drawing.labels, hrefs, strict=False)],
        "labels_left_out": drawing.labels_left_out,
        "linked": LINKED_MAX,
    }


def _add_square(made: View, context: Context, name: str, node: Node, level: int) -> None:
    resource, used, whole = dominant(node)
    marks = [one.replace("_", " ") for one in _marks(node)]
    use = f"{resource} {percent(used, whole)} %" if resource else "empty"
    made.add(
        name,
        row_key(node.node_id),
        n__class=f"sq s{level}{''.join(f' m-{mark.replace(chr(32), chr(45))}' for mark in marks)}",
        n__title=", ".join([node.node_id, use, *marks]),
        n__href=context.links.node(node.node_id),
    )
