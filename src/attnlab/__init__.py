"""Attention Lab: the library of the course.

The rooms, from the ground up; a module imports only from those before it:

- ``attention``, ``multihead``, ``positions``, ``layers``: the parts;
- ``cache``, ``transformer``, ``decoder_only``, ``efficient``: what is built of them;
- ``recurrent``: the baselines that attention is compared with;
- ``tasks``, ``training``, ``contracts``, ``memory``: data, one training loop, properties that any attention
  must have, a counter of bytes;
- ``claims``, ``plots``, ``widgets``, ``checks``: what lessons and exercises are made with.
"""

from .claims import claim, seed

__version__ = "0.1.0"

__all__ = ["__version__", "claim", "seed"]
