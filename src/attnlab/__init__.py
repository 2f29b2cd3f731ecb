"""Attention Lab: the library of the course.

The rooms, from the ground up: ``attention``, ``positions``, ``recurrent``, ``tasks``, ``training``,
``contracts``, ``plots``, ``widgets`` and ``checks``. A module imports only from those before it.
"""

from .claims import claim, seed

__version__ = "0.1.0"

__all__ = ["__version__", "claim", "seed"]
