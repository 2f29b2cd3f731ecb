"""Which parts of a Markdown text are prose, and which are code, formulas or addresses."""

import re

BLANK = "\0"
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
CODE_DIRECTIVE = re.compile(r"\{(?!code|math|mermaid)")
TICKS = re.compile(r"(?<!`)(?P<t>`{1,2})(?!`)(?:(?!\n\n).)+?(?<!`)(?P=t)(?!`)", re.S)
MATH = re.compile(r"\$\$.+?\$\$|(?<![\\$\w])\$(?![\s$])[^$\n]*?(?<![\s\\])\$(?!\w)", re.S)
LINK = re.compile(r"(?<=\])\([^()\s]*\)|<[^<>\n]+>|https?://\S+|^ {0,3}[`~:]{3,}.*$|^:\w+:.*$", re.M)


def mask(text: str, *patterns: re.Pattern[str]) -> str:
    """Blank every match, so that offsets and lines stay."""
    for pattern in patterns:
        text = pattern.sub(lambda match: re.sub(r"[^\n]", BLANK, match[0]), text)
    return text


def prose_only(text: str) -> str:
    """Blank fenced and inline code. A directive such as ``{note}`` holds prose, ``{math}`` does not."""
    out: list[str] = []
    fences: list[tuple[str, bool]] = []
    for line in text.split("\n"):
        match = FENCE.match(line)
        inside = bool(fences) and fences[-1][1]
        if match and fences and not match[2].strip() and match[1].startswith(fences[-1][0]):
            fences.pop()
        elif match and not inside:
            fences.append((match[1], not CODE_DIRECTIVE.match(match[2])))
            inside = fences[-1][1]
        out.append(BLANK * len(line) if inside else line)
    return mask("\n".join(out), TICKS)
