"""The order in which diverged lanes run: a join comes after the branches that lead to it.

The lanes that are earliest in this order run first, so the others wait for them where the branches join
again. This is Bourdoncle's weak topological order: strongly connected components (loops) stay together, and
inside one the head comes first. Ordering by address alone would run a join before a block that a compiler
moved out of line.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["weak_topological_order"]

_MAX_DEPTH = 40


def weak_topological_order(successors: Sequence[Sequence[int]], entries: Sequence[int]) -> list[int]:
    """The rank of each block; blocks that no entry reaches come last, in their own order.

    rank[a] < rank[b] for every edge a -> b that does not lead back into a loop.
    """
    ranks = [-1] * len(successors)
    order: list[int] = []
    everything = set(range(len(successors)))
    # (blocks still to order, blocks to start at, depth of loops)
    work: list[tuple[set[int], list[int], int] | int] = [(everything, list(entries), 0)]
    while work:
        item = work.pop()
        if isinstance(item, int):
            order.append(item)
            continue
        inside, starts, depth = item
        components = _components(successors, inside, starts)
        pieces: list[tuple[set[int], list[int], int] | int] = []
        for component in components:
            if len(component) == 1:
                pieces.append(component[0])
                continue
            if depth >= _MAX_DEPTH:
                pieces.extend(sorted(component))
                continue
            head = component[-1]
            rest = set(component)
            rest.discard(head)
            pieces.append(head)
            first = [s for s in successors[head] if s in rest]
            pieces.append((rest, first, depth + 1))
        work.extend(reversed(pieces))
    for rank, block in enumerate(order):
        ranks[block] = rank
    return ranks


def _components(
    successors: Sequence[Sequence[int]], inside: set[int], starts: Sequence[int]
) -> list[list[int]]:
    """Strongly connected components in topological order (Tarjan, without recursion).

    The last block of each component is the one that was reached first: the loop's head.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    seen: set[int] = set()
    roots = [s for s in starts if s in inside] + sorted(inside - set(starts))
    for root in roots:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        calls = [(root, iter(successors[root]))]
        while calls:
            block, following = calls[-1]
            advanced = False
            for after in following:
                if after not in inside:
                    continue
                if after not in index:
                    index[after] = low[after] = len(index)
                    stack.append(after)
                    on_stack.add(after)
                    calls.append((after, iter(successors[after])))
                    advanced = True
                    break
                if after in on_stack:
                    low[block] = min(low[block], index[after])
            if advanced:
                continue
            calls.pop()
            if calls:
                parent = calls[-1][0]
                low[parent] = min(low[parent], low[block])
            if low[block] == index[block]:
                component = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.append(member)
                    if member == block:
                        break
                found.append(component)
                seen.update(component)
    found.reverse()
    return found
