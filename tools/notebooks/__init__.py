"""From the manuscript in ``book/`` to the notebooks, and back.

``python -m tools.notebooks build | check | pull | evidence``; ``cli`` describes each.
"""
