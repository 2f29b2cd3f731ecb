"""Break the data line by line: the tests of each module of attnlab.tasks must notice every time."""

import importlib

import pytest

from tests.unit.mutants import Mutants

# Module by module: (what is there, what a slip would make of it).
SLIPS = {
    "synthetic": [
        ("tokens[:, 0] = num_symbols\n", "tokens[:, 0] = num_symbols + 1\n"),
        ("return tokens, tokens[:, 1].clone()", "return tokens, tokens[:, 2].clone()"),
        ("return tokens, tokens[:, 1].clone()", "return tokens, tokens[:, 1]"),
        ("keys = shuffled[:, :pairs]", "keys = torch.zeros_like(shuffled[:, :pairs])"),
        ("targets = values.gather", "targets = keys.gather"),
        ("return tokens, tokens.flip(1)", "return tokens, tokens.flip(0)"),
        ("return tokens, tokens.flip(1)", "return tokens.flip(1), tokens.flip(1)"),
        (
            "targets[:, distance:] = tokens[:, : length - distance]",
            "targets[:, distance:] = tokens[:, distance:]",
        ),
        (
            "targets[:, distance:] = tokens[:, : length - distance]",
            "targets[:, : length - distance] = tokens[:, distance:]",
        ),
        ("torch.full_like(tokens, ignore)", "torch.full_like(tokens, IGNORE)"),
        ("torch.full_like(tokens, ignore)", "torch.zeros_like(tokens)"),
        ("if not 0 <= distance < length:", "if not 0 <= distance <= length:"),
        ("if not 0 <= distance < length:", "if not distance < length:"),
        ("if 0 <= ignore < num_symbols:", "if 0 < ignore < num_symbols:"),
        ("if 0 <= ignore < num_symbols:", "if False:"),
        ("IGNORE = -100", "IGNORE = -1"),
    ],
    "translation": [
        ("(number < num_pairs % len(kinds))", "0"),
        ("if value not in seen:", "if True:"),
        ("rng.shuffle(pairs)", "pass"),
        ("""write(value, "en"), write(value, language)""", """write(value, language), write(value, "en")"""),
        ("links = link_dates(source, target)", "links = ()"),
        ("links = link_dates(source, target)", "links = link_dates(target, source)"),
        (".sample(sources, num_held_out)", ".sample(sources, num_held_out + 1)"),
        (
            "sides[pair.source.casefold() in held_out].append(pair)",
            "sides[pair.source.casefold() not in held_out].append(pair)",
        ),
        ("sides[pair.source.casefold() in held_out]", "sides[pair.source in held_out]"),
        ("{pair.source.casefold() for pair in pairs}", "{pair.source for pair in pairs}"),
        ("held_out = set(_random_from(seed)", "held_out = set(_random_from(0)"),
        ("if not 1 <= num_held_out < len(sources):", "if not 1 <= num_held_out <= len(sources):"),
        ("if not 1 <= num_held_out < len(sources):", "if not 0 <= num_held_out < len(sources):"),
        ("if language not in LANGUAGES:", "if language not in LOCALES:"),
        ("if kind not in KINDS:", "if False:"),
        ("if not kinds or len(set(kinds)) < len(kinds):", "if not kinds:"),
        ("if not kinds or len(set(kinds)) < len(kinds):", "if len(set(kinds)) < len(kinds):"),
        ("if num_pairs < 1:", "if num_pairs < 0:"),
        ("MOST_OF_A_KIND = 20_000", "MOST_OF_A_KIND = 10_000"),
        ("rng = _random_from(seed)", "rng = random.Random()"),
        (
            "seed = int(torch.randint(2**62, (), generator=seed, device=seed.device))",
            "seed = seed.initial_seed()",
        ),
    ],
    "phrases": [
        ("datetime.date(2099, 12, 31)", "datetime.date(2009, 12, 31)"),
        ("rng.randrange(366 * 24 * 60)", "rng.randrange(300 * 24 * 60)"),
        ("rng.randrange(366 * 24 * 60)", "60 * rng.randrange(366 * 24)"),
        ("rng.randrange(int(10 ** rng.uniform(1, 5)))", "rng.randrange(10**5)"),
        ("rng.randrange(int(10 ** rng.uniform(1, 5)))", "rng.randrange(1, int(10 ** rng.uniform(1, 5)))"),
        ("rng.uniform(precision, 5 + precision)", "rng.uniform(2, 7)"),
        ("rng.uniform(precision, 5 + precision)", "rng.uniform(0, 5 + precision)"),
        (".scaleb(-precision)", ".scaleb(-2)"),
        ("""write_date(day, "full", LOCALES[language])""", """write_date(day, "long", LOCALES[language])"""),
        ('format_skeleton("MMMMd", ', 'format_skeleton("MMMd", '),
        (
            """format_time(moment.time(), "short", locale=locale), date)""",
            """date, format_time(moment.time(), "short", locale=locale))""",
        ),
        (
            """locale=LOCALES[language], format_type="name")""",
            """locale=LOCALES["en"], format_type="name")""",
        ),
        (""", format_type="name")""", ")"),
        ("""return Written(plain_spaces(joint""", """return Written(str(joint"""),
        (
            """    text = format_currency(*amount, locale=LOCALES[language], format_type="name")
    return Written(plain_spaces(text), {})""",
            """    text = format_currency(*amount, locale=LOCALES[language], format_type="name")
    return Written(text, {})""",
        ),
        ("""num2words(number, lang=language)""", """num2words(number)"""),
    ],
    "dates": [
        ("""{"\\u00a0": " ", "\\u202f": " "}""", """{"\\u00a0": " "}"""),
        ("text += literal", "text += literal.strip()"),
        ("start = len(text)\n", "start = len(text) - 1\n"),
        ("(start, len(text))", "(start, len(text) + 1)"),
        ("if source.text[begin:end] == target.text[start:stop]:", "if False:"),
        ("if source.text[begin:end] == target.text[start:stop]:", "if end - begin == stop - start:"),
        ("begin + i, begin + i + 1)", "begin + i + 1, begin + i + 2)"),
        ("if not pair.links:", "if False:"),
        ("""if "".join(tokens).casefold() != text.casefold():""", """if "".join(tokens) != text:"""),
        ("""if "".join(tokens).casefold() != text.casefold():""", "if False:"),
        ("""("target_tokens", target_tokens, pair.target),""", ""),
        ("link.target_start < stop and", "link.target_start <= stop and"),
        ("start < link.target_stop]", "start <= link.target_stop]"),
        ("link.source_start < end and", "link.source_start <= end and"),
        ("begin < link.source_stop for", "begin <= link.source_stop for"),
        ("_token_spans(source_tokens)", "_token_spans(target_tokens)"),
    ],
    "tokens": [
        ("(?: (?=\\d))?|", "|"),
        ("(?: (?=\\d))?|", "(?: )?|"),
        ("[^\\W\\d_]+|", "\\w+|"),
        ('|\\s"', '"'),
        ("\\d| ?(?:", "\\d+| ?(?:"),
        ("return split_words(fold_case(text))", "return split_words(text)"),
        ("return list(text)", "return text.split()"),
        ("lower if len(lower := letter.lower()) == 1 else letter", "letter.lower()"),
        ("lower if len(lower := letter.lower()) == 1 else letter", "letter.upper()"),
        ("if pad == eos:", "if False:"),
        ("special = (pad, bos, eos, unk)\n", "special = (pad, eos, bos, unk)\n"),
        ("if len(set(special)) < len(special):", "if False:"),
        ('if "" in self._numbers:', "if False:"),
        ("if len(self._numbers) < len(self.tokens):", "if False:"),
        (
            "cls(sorted({token for row in rows for token in row}))",
            "cls(list({token for row in rows for token in row})[::-1])",
        ),
        ("return len(self.tokens)", "return len(self.tokens) - 4"),
        ("self._numbers.get(token, UNK)", "self._numbers.get(token, PAD)"),
        ("if isinstance(tokens, str):", "if False:"),
        ("if numbers.ndim != 1:", "if False:"),
        ("if not 0 <= number < len(self.tokens):", "if not number < len(self.tokens):"),
        ("if not 0 <= number < len(self.tokens):", "if not 0 <= number <= len(self.tokens):"),
        ("                break\n", "                continue\n"),
        ("if number not in (PAD, BOS):", "if number != BOS:"),
        ("if number not in (PAD, BOS):", "if number != PAD:"),
        ("if number not in (PAD, BOS):", "if number not in (PAD, BOS, UNK):"),
    ],
    "subwords": [
        ("(-pair_counts[pair], pair))", "(pair_counts[pair], pair))"),
        ("(-pair_counts[pair], pair))", "-pair_counts[pair])"),
        (
            "        for pair in _neighbours(row):\n            pair_counts[pair] += counts[word]",
            "        for pair in _neighbours(row):\n            pair_counts[pair] += 1",
        ),
        ("pair_counts[pair] -= counts[word]", "pair_counts[pair] -= 0"),
        ("                    del pair_counts[pair]", "                    pass"),
        (
            "                pair_counts[pair] += counts[word]\n                words_with[pair].add(word)",
            "                pair_counts[pair] += counts[word]",
        ),
        ("pieces[word] = _join(pieces[word], best)", "pass"),
        ("min(known, key=self._rank.__getitem__)", "known[0]"),
        ("min(known, key=self._rank.__getitem__)", "max(known, key=self._rank.__getitem__)"),
        ("for word in split_words(text) if _is_word(word))", "for word in split_words(text))"),
        ("if num_merges < 0:", "if False:"),
        ("if isinstance(texts, str):", "if False:"),
        ('" " + row[0] if word[0]', "row[0] if word[0]"),
        ('row[-1] + " " if word[-1]', "row[-1] if word[-1]"),
        ("            position += 2", "            position += 1"),
        ("len(merges) < num_merges and", "len(merges) <= num_merges and"),
    ],
    "batching": [
        ("[pad] * (longest - len(row))", "[PAD] * (longest - len(row))"),
        ("[*row, *[pad] * (longest - len(row))]", "[*[pad] * (longest - len(row)), *row]"),
        ("if pad in row:", "if False:"),
        ("if not rows:", "if False:"),
        ("dtype=torch.int64, device=device)", "device=device)"),
        ("dtype=torch.int64, device=device)", "dtype=torch.int64)"),
        ("    _check_pairs(pairs, batch_size, pad, bos, eos)\n    return _endless", "    return _endless"),
        ("    while True:\n", "    for _ in range(2):\n"),
        ("generator, pad=pad, bos=bos, eos=eos)", "torch.Generator().manual_seed(1))"),
        ("    order = _shuffled(len(pairs), generator)", "    order = list(range(len(pairs)))"),
        ("pool_size = batch_size * BATCHES_IN_A_POOL", "pool_size = batch_size"),
        ("sum(map(len, pairs[index]))", "0"),
        ("for number in _shuffled(len(cut), generator):", "for number in range(len(cut)):"),
        ("range(0, len(pool), batch_size)", "range(0, len(pool) - batch_size + 1, batch_size)"),
        ("[[*source, eos] for source", "[[*source] for source"),
        ("[[bos, *target] for", "[[*target] for"),
        ("[[bos, *target] for", "[[bos, *target, eos] for"),
        ("[[bos, *target] for", "[[eos, *target] for"),
        ("[[*target, eos] for", "[[bos, *target] for"),
        ("return (source, target), target_out", "return (target, source), target_out"),
        ("    if pad == eos:", "    if False:"),
        ("if len(special) < 3:", "if False:"),
        ("if not special.isdisjoint(chain(*pair)):", "if not special.isdisjoint(pair[0]):"),
        ("if batch_size < 1:", "if batch_size < 0:"),
        ("    if not pairs:", "    if False:"),
        ("< probability\n    ordinary", "> probability\n    ordinary"),
        ("chosen & ordinary, unk)", "chosen, unk)"),
        ("chosen & ordinary, unk)", "chosen & ordinary, UNK)"),
        ("tokens.masked_fill(", "tokens.masked_fill_("),
        ("if not 0.0 <= probability <= 1.0:", "if False:"),
        ("torch.rand(tokens.shape, generator=generator, device=tokens.device)", "torch.rand(tokens.shape)"),
    ],
}
TESTS = {
    "synthetic": "test_tasks.py",
    "translation": "test_tasks_translation.py",
    "phrases": "test_tasks_translation.py",
    "dates": "test_tasks_dates.py",
    "tokens": "test_tasks_tokens.py",
    "subwords": "test_tasks_tokens.py",
    "batching": "test_tasks_tokens.py",
}
KEPT = {"translation": ["TranslationPair"], "dates": ["Link", "Written"]}
ROOMS = {
    name: Mutants(importlib.import_module(f"attnlab.tasks.{name}"), tests, keep=KEPT.get(name, ()))
    for name, tests in TESTS.items()
}
CASES = [(name, there, slip) for name, slips in SLIPS.items() for there, slip in slips]


@pytest.mark.parametrize("name", ROOMS)
def test_the_source_as_it_stands_passes(name):
    assert ROOMS[name].first_failure(ROOMS[name].source) is None


@pytest.mark.parametrize(
    ("name", "there", "slip"), CASES, ids=[f"{name}-{number:03d}" for number, (name, *_) in enumerate(CASES)]
)
def test_mutant_is_noticed(name, there, slip):
    ROOMS[name].require_noticed(there, slip)
