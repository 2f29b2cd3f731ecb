"""A trained translator in one small file, for a notebook or a page to load.

==============  ============================================================
module          holds
==============  ============================================================
``tokeniser``   how one side's text becomes numbers, and how these become text
``translator``  the model with both tokenisers: text in, text out
``rows``        matrices in 8 bits, with one scale a row
``file``        writing the file and reading it
==============  ============================================================
"""

from attnlab.export.file import FORMAT_VERSION, load_translator, save_translator
from attnlab.export.rows import QuantisedRows, quantise_rows, restore_rows
from attnlab.export.tokeniser import Tokeniser
from attnlab.export.translator import TrainedTranslator

__all__ = [
    "FORMAT_VERSION",
    "QuantisedRows",
    "Tokeniser",
    "TrainedTranslator",
    "load_translator",
    "quantise_rows",
    "restore_rows",
    "save_translator",
]
