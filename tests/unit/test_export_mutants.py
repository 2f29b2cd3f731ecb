"""Break what writes and reads a translator line by line: its tests must notice every time."""

import attnlab.export.file
import attnlab.export.rows
import attnlab.export.tokeniser
import attnlab.export.translator
from tests.unit.mutants import Mutants, judging

# (what is there, what a slip would make of it); the first text stands exactly once in the source.
ROWS = [
    ("if matrix.ndim != 2:", "if matrix.ndim < 2:"),
    ("if matrix.ndim != 2:", "if matrix.ndim > 2:"),
    ("    if not bool(matrix.isfinite().all()):\n", "    if bool(matrix.isnan().any()):\n"),
    ("    if not bool(matrix.isfinite().all()):\n", "    if bool(matrix.isinf().any()):\n"),
    ("matrix = matrix.detach().cpu().float()", "matrix = matrix.cpu().float()"),
    ("matrix = matrix.detach().cpu().float()", "matrix = matrix.detach().cpu()"),
    ("matrix.abs().amax(dim=1) / _LARGEST", "matrix.amax(dim=1) / _LARGEST"),
    ("matrix.abs().amax(dim=1) / _LARGEST", "matrix.abs().amax(dim=0) / _LARGEST"),
    ("matrix.abs().amax(dim=1) / _LARGEST", "matrix.abs().amax() / _LARGEST"),
    ("matrix.abs().amax(dim=1) / _LARGEST", "matrix.abs().amax(dim=1) / (_LARGEST + 1)"),
    ("matrix.abs().amax(dim=1) / _LARGEST", "matrix.abs().mean(dim=1) / _LARGEST"),
    (".round().clamp", ".clamp"),
    (".round().clamp", ".floor().clamp"),
    (".round().clamp", ".ceil().clamp"),
    ("rows.values.float() * rows.scales[:, None]", "rows.values.float() / rows.scales[:, None]"),
    ("rows.values.float() * rows.scales[:, None]", "rows.values.float() * rows.scales"),
    ("rows.values.float() * rows.scales[:, None]", "rows.values.float() * rows.scales[:1, None]"),
]
TOKENISER = [
    ("if self.pieces not in get_args(Pieces):", "if False:"),
    ('if self.merges and self.pieces != "subwords":', "if False:"),
    ("fold_case(text) if self.lower_case else text", "text"),
    ("fold_case(text) if self.lower_case else text", "fold_case(text)"),
    ("cls(Vocabulary([]), pieces, lower_case, merges).cut", "cls(Vocabulary([])).cut"),
    ("map(cut, texts)), pieces, lower_case, merges)", "map(cut, texts)), pieces)"),
    ("return self._splitter(text)", "return split_words(text)"),
    ("split_words(text) if self.pieces", "split_characters(text) if self.pieces"),
    ('"words" else split_characters(text)', '"words" else split_words(text)'),
    ("return SubwordSplitter(self.merges)", "return SubwordSplitter(self.merges[:1])"),
    ("self.vocabulary.encode(self.cut(text))", "self.vocabulary.encode(split_words(text))"),
    ('"".join(', '" ".join('),
    ('"pieces": self.pieces,', '"pieces": "words",'),
    ('"lower_case": self.lower_case,', '"lower_case": False,'),
    ("list(pair) for pair in self.merges]", "list(pair) for pair in self.merges[1:]]"),
    ('"merges": [list(pair)', '"merges": [list(pair)[::-1]'),
    ("pad, bos, eos, unk, *tokens = ", "pad, bos, unk, eos, *tokens = "),
    ("pad=pad, bos=bos, eos=eos, unk=unk", ""),
    ('fields["lower_case"],', "False,"),
    ("tuple((first, second) for", "tuple((second, first) for"),
]
TRANSLATOR = [
    ('for side in ("source", "target"):', 'for side in ("source",):'),
    ('for side in ("source", "target"):', 'for side in ("target",):'),
    ("if given != expected:", "if given > expected:"),
    ("if given != expected:", "if given < expected - 99:"),
    ("[*self.source.encode(text), EOS]", "self.source.encode(text)"),
    ("[*self.source.encode(text), EOS]", "[EOS, *self.source.encode(text)]"),
    ("[*self.source.encode(text), EOS]", "[*self.target.encode(text), EOS]"),
    ("max_length=self.model.config.max_length", "max_length=4"),
    ("self.target.decode(row)", "self.source.decode(row)"),
]
FILE = [
    ('"sha256": _NO_DIGEST,', '"sha256": "",'),
    ('"version": FORMAT_VERSION,', '"version": 0,'),
    ('"config": translator.model.config.to_dict(),', '"config": {},'),
    ('"source": translator.source.to_dict(),', '"source": translator.target.to_dict(),'),
    ('"target": translator.target.to_dict(),', '"target": translator.source.to_dict(),'),
    ('"about": translator.about,', '"about": {},'),
    ("ensure_ascii=False", "ensure_ascii=True"),
    ("    if json.loads(text)[", "    if False and json.loads(text)["),
    ('{"attnlab": text}', '{"attnlab": text, "format": "pt"}'),
    ("hashlib.sha256(content)", "hashlib.sha256(text.encode())"),
    ("digest.encode(), 1))", "digest.encode()))"),
    ("digest.encode(), 1))", "digest.upper().encode(), 1))"),
    ("    return digest\n", "    return text\n"),
    ("    except SafetensorError as error:\n", "    except KeyError as error:\n"),
    ("Transformer(config).eval()", "Transformer(config)"),
    ("    model.load_state_dict(weights)\n", ""),
    ("config.num_encoder_layers + config.num_decoder_layers", "0"),
    ('with torch.device("meta"):', 'with torch.device("cpu"):'),
    ('config.positions == "sinusoidal" else', "False else"),
    ('config.positions == "sinusoidal" else', "True else"),
    ("sorted(expected.keys() | given.keys())", "sorted(expected)"),
    ("sorted(expected.keys() | given.keys())", "sorted(given)"),
    ("        if expected.get(name) != given.get(name):\n", "        if False:\n"),
    ('"none" if shape is None else str(tuple(shape))', "str(shape)"),
    ("    _check_length(translator.model.config)\n", ""),
    ("    if config.max_length > _MOST_POSITIONS:\n", "    if False:\n"),
    ("except (KeyError, RuntimeError, TypeError, ValueError) as", "except KeyError as"),
    ("except (KeyError, RuntimeError, TypeError, ValueError) as", "except RuntimeError as"),
    ('for side in ("source", "target"))', 'for side in ("target", "source"))'),
    ('document["about"])', "{})"),
    ("if value.ndim == 2:", "if value.ndim == 2 and value.shape[0] != value.shape[1]:"),
    ("        elif not bool(value.isfinite().all()):\n", "        elif False:\n"),
    ("value.detach().cpu().float().contiguous()", "value.detach().cpu().contiguous()"),
    ("        if name + _SCALE in tensors\n", "        if False\n"),
    ("        if not name.endswith(_SCALE)\n", ""),
    ('"little")', '"big")'),
    ('.get("attnlab", "{}")', '["attnlab"]'),
    ("    except json.JSONDecodeError as error:\n", "    except KeyError as error:\n"),
    ('if document.get("format") != _FORMAT:', "if False:"),
    ("if not isinstance(version, int) or version > FORMAT_VERSION:", "if version is None:"),
    ("if not isinstance(version, int) or version > FORMAT_VERSION:", "if not isinstance(version, int):"),
    ("not isinstance(version, int) or version > FORMAT_VERSION", "int(version or 9) > FORMAT_VERSION"),
    ("    if hashlib.sha256(blank).hexdigest() != digest:\n", "    if False:\n"),
]

FILES = {
    "rows": (attnlab.export.rows, ROWS),
    "tokeniser": (attnlab.export.tokeniser, TOKENISER),
    "translator": (attnlab.export.translator, TRANSLATOR),
    "file": (attnlab.export.file, FILE),
}

ROOMS = {name: (Mutants(module, "test_export.py"), slips) for name, (module, slips) in FILES.items()}
test_the_source_as_it_stands_passes, test_mutant_is_noticed = judging(ROOMS)
