"""Small random translators of every kind that the engine runs, and an examination of each."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import torch

from attnlab.export import Tokeniser, TrainedTranslator, load_translator, save_translator
from attnlab.tasks import Vocabulary
from attnlab.transformer import Transformer, TransformerConfig
from tests.site.engine_exam import Exam, ask_beam, ask_greedy, ask_numbers, ask_text

SOURCES = ["ab cd 1 ef", "cd", "ef ef AB 2", ""]
TARGETS = ["uvw xy", "xyx 12", "vu", "wwwxyz"]
#: The last two have as many pieces as fit with the end mark, and one more.
TEXTS = ["AB  cd1 zz", "uvw wwwxy  uv 12 q", " wwx ", "wwx", "Ⅳ²\t1", "a\x1cb\x85\ufeff", "1" * 11, "1" * 12]
MERGES = [("u", "v"), ("x", "y"), ("uv", "w"), ("w", "w"), ("w", "x")]
#: What differs from the lesson's model. Widths are no multiples of four, and no two sizes are equal.
VARIANTS: dict[str, dict[str, Any]] = {
    "as in the lesson": {},
    "the norm behind": {"norm": "post"},
    "the norm behind and at the end": {"norm": "post", "final_norm": True},
    "no norm at the end": {"final_norm": False},
    "learned positions": {"positions": "learned"},
    "no positions": {"positions": "none"},
    "an output of its own": {"tie_output": False},
    "one table for both": {"share_embeddings": True},
    "one layer and three": {"num_encoder_layers": 1, "num_decoder_layers": 3},
    "trained without a mask": {},
}


def small_translator(variant: str, folder: Path, seed: int = 79) -> tuple[Path, TrainedTranslator]:
    """A random translator with every parameter away from where it starts, as its file gives it back."""
    tokens = ["ab ", "ab", " cd", "cd", " cd ", " ef", "ef", "1", "2"]
    pieces = ["u", "v", "w", "x", "y", "z", "uv", "xy", "uvw", " xy", "1"]
    shared = VARIANTS[variant].get("share_embeddings", False)
    source = Tokeniser(Vocabulary([*tokens, *(["g", "h"] if shared else [])]), lower_case=True)
    target = Tokeniser(Vocabulary(pieces), "subwords", merges=MERGES)
    sizes = {"source_vocab_size": len(source.vocabulary), "target_vocab_size": len(target.vocabulary)}
    usual = {"d_model": 10, "num_heads": 2, "d_ff": 7, "num_encoder_layers": 2, "num_decoder_layers": 2}
    config = TransformerConfig(
        **(usual | {"norm": "pre", "dropout": 0.0, "max_length": 12} | sizes | VARIANTS[variant])
    )
    generator = torch.Generator().manual_seed(seed)
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():  # pad's row too: with a tied output it must not matter
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    path = folder / "small.safetensors"
    about = {"language": "small"} | ({"causal_mask": False} if "mask" in variant else {})
    save_translator(path, TrainedTranslator(model, source, target, about))
    return path, load_translator(path)


@functools.cache
def small_exam(variant: str) -> Exam:
    """Every part of the engine once, on a small random translator."""
    with tempfile.TemporaryDirectory() as folder:
        path, translator = small_translator(variant, Path(folder))
        exam = Exam({variant: (path.read_bytes(), "read")})
    for source, target in zip(SOURCES, TARGETS, strict=True):
        ask_numbers(exam, variant, translator, source, target)
    for ablation in ({"positions": False}, {"scale": False}, {"causal": False}, {"crossLayers": [0]}):
        ask_numbers(exam, variant, translator, SOURCES[0], TARGETS[0], **ablation)
    for where in ("encoder", "self", "cross"):
        head = {"where": where, "layer": 0, "head": 1}
        ask_numbers(exam, variant, translator, SOURCES[0], TARGETS[0], heads=[head])
    ask_greedy(exam, variant, translator, SOURCES)
    ask_greedy(exam, variant, translator, SOURCES[:2], max_length=3)
    # With a penalty a beginning may rise as it grows, so that it matters when the search stops.
    for size, penalty in ((1, 0.0), (3, 0.0), (3, 1.0), (5, 0.6), (2, 1.0)):
        ask_beam(exam, variant, translator, SOURCES, size, penalty)
    ask_beam(exam, variant, translator, SOURCES[:2], 3, 1.0, max_length=4)
    ask_text(exam, variant, translator, TEXTS)
    for ids in ([4, 14, 2, 5], [1, 5, 3, 0, 6], []):
        exam.ask("decode", translator.target.decode(ids), model=variant, ids=ids)
    return exam
