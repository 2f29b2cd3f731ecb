"""How many parameters the paper's two models have: counted, against what its table 3 says.

python -m benchmarks parameters
"""

import torch

from attnlab.transformer import Transformer, TransformerConfig, paper_base, paper_big
from benchmarks.harness import Report

VOCABULARY = 37_000
"""Vaswani et al. 2017, section 5.1: about 37000 tokens, shared by source and target."""
TABLE = {"base": (paper_base, 65), "big": (paper_big, 213)}
"""The configuration, and the millions of parameters that table 3 gives."""


def count(config: TransformerConfig) -> tuple[int, int]:
    """All parameters, and those of the embeddings among them; no memory is taken for either."""
    with torch.device("meta"):
        model = Transformer(config)
    tables = {
        id(part.weight): part.weight.numel()
        for part in model.modules()
        if isinstance(part, torch.nn.Embedding)
    }
    return sum(parameter.numel() for parameter in model.parameters()), sum(tables.values())


def run(report: Report, *, vocabulary: int = VOCABULARY) -> None:
    """Print the counts of base and big."""
    report.title(
        "parameters: the paper's base and big",
        f"one vocabulary of {vocabulary:,} tokens, embeddings and output tied",
    )
    report.line(
        f"\n{'model':<6}{'parameters':>13}{'embeddings':>13}{'the rest':>13}{'table 3':>13}{'ratio':>7}"
    )
    for name, (configuration, millions) in TABLE.items():
        total, embeddings = count(configuration(vocabulary))
        report.line(
            f"{name:<6}{total:>13,}{embeddings:>13,}{total - embeddings:>13,}"
            f"{f'{millions} million':>13}{total / millions / 1e6:>7.3f}"
        )
