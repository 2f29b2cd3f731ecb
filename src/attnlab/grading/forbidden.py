"""Flag an answer that calls a ready-made function where the exercise asks to write it. It costs no points.

It is found by name in the text of the answer and of the learner's functions that it uses. A learner who wants
to hide a call can do so: the flag helps a person to look in the right place, no more.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from .sources import answers_of, code_cells, definitions, imported_names

__all__ = ["FORBIDDEN", "built_in_flags"]

_ATTENTION = ("scaled_dot_product_attention", "MultiheadAttention", "multi_head_attention_forward")

_RECURRENT = ("RNN", "RNNCell", "rnn_tanh", "rnn_tanh_cell")
_LAYERS = ("TransformerEncoderLayer", "TransformerDecoderLayer", "EncoderLayer", "DecoderLayer")

FORBIDDEN: Mapping[str, tuple[str, ...]] = {
    "recurrence_limits.rnn_states": _RECURRENT,
    "query_key_value.attention": _ATTENTION,
    "query_key_value.SelfAttention": _ATTENTION,
    "multi_head.split_heads": ("split_heads",),
    "multi_head.merge_heads": ("merge_heads",),
    "multi_head.GroupedQueryAttention": (*_ATTENTION[1:], "MultiHeadAttention"),
    "positions.SinusoidalPositions": ("SinusoidalPositions", "sinusoidal_positions"),
    "positions.rotate": ("RotaryPositions", "InterleavedRotary", "HalfSplitRotary"),
    "positions.alibi_bias": ("alibi_bias", "alibi_slopes"),
    "block.LayerNorm": ("LayerNorm", "layer_norm"),
    "block.PostNormBlock": _LAYERS,
    "block.PreNormBlock": _LAYERS,
    "encoder_decoder.DecoderLayer": _LAYERS,
    "translation.beam_search": ("beam_search",),
}
"""Ready-made functions and classes that answer an exercise, by its id; an instructor's file adds to it."""


def built_in_flags(
    path: Path, tasks: Sequence[str], more: Mapping[str, tuple[str, ...]] | None = None
) -> list[str]:
    """One flag for each answer that uses a ready-made function.

    Args:
        path: the submission.
        tasks: ids of the exercises.
        more: further names, by exercise.
    """
    more = more or {}
    rules = {task_id: {*FORBIDDEN.get(task_id, ()), *more.get(task_id, ())} for task_id in tasks}
    rules = {task_id: names for task_id, names in rules.items() if names}
    if not rules:
        return []
    cells = code_cells(path)
    known, aliases = definitions(cells), imported_names(cells)
    flags = []
    for task_id, names in rules.items():
        used = {
            name
            for definition in answers_of(task_id.split(".")[-1], known)
            for name in _used(definition, aliases)
        }
        flags += [f"{task_id} uses {name}" for name in sorted(used & names)]
    return flags


def _used(definition: ast.AST, aliases: Mapping[str, str]) -> set[str]:
    found = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(aliases.get(node.id, node.id))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found.add(node.value)  # getattr(F, "...")
    return found
