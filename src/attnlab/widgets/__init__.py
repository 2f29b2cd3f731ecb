"""Widgets of the course: one folder each, with a Python class, an ES module and a style sheet.

A widget computes in the browser, so the same one works in Jupyter, in Colab and on the website, where no
kernel runs. Each class has a method that computes the same numbers in Python; tests hold the two together.
"""

from __future__ import annotations

from .attention_explorer import AttentionExplorer
from .bug_game import BugGame
from .circuit_switches import CircuitSwitches
from .extrapolation_map import ExtrapolationMap
from .gradient_explorer import GradientExplorer
from .head_split_explorer import HeadSplitExplorer
from .head_switches import HeadSwitches
from .map_explorer import MapExplorer
from .mask_painter import MaskPainter
from .rotary_explorer import RotaryExplorer
from .soft_lookup_explorer import SoftLookupExplorer
from .tile_walk import TileWalk
from .token_journey import TokenJourney
from .training_map import TrainingMap
from .translator_explorer import TranslatorExplorer

__all__ = [
    "AttentionExplorer",
    "BugGame",
    "CircuitSwitches",
    "ExtrapolationMap",
    "GradientExplorer",
    "HeadSplitExplorer",
    "HeadSwitches",
    "MapExplorer",
    "MaskPainter",
    "RotaryExplorer",
    "SoftLookupExplorer",
    "TileWalk",
    "TokenJourney",
    "TrainingMap",
    "TranslatorExplorer",
]
