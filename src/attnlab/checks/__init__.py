"""The exercises' checks: ``check`` judges an answer and names the mistake, ``progress`` shows the points.

``engine`` says how the tasks of a chapter are written.
"""

from .engine import check
from .progress import progress

__all__ = ["check", "progress"]
