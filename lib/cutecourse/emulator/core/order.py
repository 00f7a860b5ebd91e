"""The order in which diverged lanes run: a join comes after the branches that lead to it.

The lanes that are earliest in this order run first, so the others wait for them where the branches join
again. This is Bourdoncle's weak topological order: strongly connected components (loops) stay together, and
inside one the head comes first. Ordering by address alone would run a join before a block that a compiler
moved out of line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["weak_topological_order"]

_MAX_DEPTH = 40


def weak_topological_order(successors: Sequence[Sequence[int]], entries: Sequence[int]) -> list[int]:
    """The rank of each block; blocks that no entry reaches come last, in their own order.

    rank[a] < rank[b] for every edge a -> b that does not lead back into a loop.
    """
    order: list[int] = []
    # (blocks still to order, blocks to start at, depth of loops), or a block to append to the order
    work: list[tuple[set[int], Sequence[int], int] | int] = [(set(range(len(successors))), entries, 0)]
    while work:
        item = work.pop()
        if isinstance(item, int):
            order.append(item)
            continue
        inside, starts, depth = item
        for head, *rest in _components(successors, inside, starts):
            if depth < _MAX_DEPTH and rest:
                work.append((set(rest), [s for s in successors[head] if s in rest], depth + 1))
                work.append(head)
            else:
                work.extend(sorted([head, *rest], reverse=True))
    ranks = [-1] * len(successors)
    for rank, block in enumerate(order):
        ranks[block] = rank
    return ranks


def _components(
    successors: Sequence[Sequence[int]], inside: set[int], starts: Sequence[int]
) -> list[list[int]]:
    """Strongly connected components, the last in topological order first (Tarjan, without recursion).

    The first block of each component is the one that was reached first: the loop's head.
    """
    stack: list[int] = []
    """The blocks that have been reached and are in no component yet."""
    index: dict[int, int] = {}
    """The position of a block in the stack; past all positions once it is in a component."""
    low: dict[int, int] = {}
    """The lowest position that the block leads back to, as far as is known."""
    calls: list[tuple[int, Iterator[int]]] = []
    """The path to the current block: each block with the successors still to look at."""
    found: list[list[int]] = []

    def reach(block: int) -> None:
        index[block] = low[block] = len(stack)
        stack.append(block)
        calls.append((block, iter(successors[block])))

    for root in [*starts, *sorted(inside)]:
        if root in inside and root not in index:
            reach(root)
        while calls:
            block, following = calls[-1]
            for after in following:
                if after in inside and after not in index:
                    reach(after)
                    break
                if after in inside:
                    low[block] = min(low[block], index[after])
            else:
                calls.pop()
                if calls:
                    parent, _ = calls[-1]
                    low[parent] = min(low[parent], low[block])
                if low[block] == index[block]:
                    component = stack[index[block] :]
                    del stack[index[block] :]
                    index.update(dict.fromkeys(component, len(successors)))
                    found.append(component)
    return found
