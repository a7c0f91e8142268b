"""Circles in a graph."""

from __future__ import annotations


def components(edges: list[list[int]]) -> list[list[int]]:
    """Return the strongly connected components, each sorted, those that edges lead to first.

    Tarjan's algorithm without its recursion, which a long chain of requirements would take too deep.

    >>> components([[1], [0], [1]])
    [[0, 1], [2]]
    """
    found: list[list[int]] = []
    number = [0] * len(edges)  # from 1 in the order of discovery; 0 is not yet discovered
    low = [0] * len(edges)
    open_nodes: list[int] = []
    is_open = [False] * len(edges)
    count = 0
    for root in range(len(edges)):
        path: list[tuple[int, int]] = [] if number[root] else [(root, 0)]
        while path:
            node, place = path.pop()
            if place == 0:
                count += 1
                number[node] = low[node] = count
                open_nodes.append(node)
                is_open[node] = True
            elif is_open[child := edges[node][place - 1]]:
                low[node] = min(low[node], low[child])
            if place < len(edges[node]):
                path.append((node, place + 1))
                if not number[child := edges[node][place]]:
                    path.append((child, 0))
            elif low[node] == number[node]:
                members: list[int] = []
                while is_open[node]:
                    members.append(open_nodes.pop())
                    is_open[members[-1]] = False
                found.append(sorted(members))
    return found
