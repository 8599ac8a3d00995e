"""How wide a text is in the charts' font, and how it is broken into lines.

A browser without Liberation Sans, Arial or Helvetica takes another font, which is often a sixth wider (DejaVu Sans). fitted() gives
every text of a drawing the width that it was laid out for, so that nothing overlaps or is cut.
"""

import html
import re
import unicodedata

from words import clean, shorten

# Advance widths of Liberation Sans, and so of Arial and Helvetica, in thousandths of the size: from blank to tilde, then the other
# letters that charts use.
ASCII = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278,
    584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944,
    667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500,
    278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584]
ASCII_BOLD = [
    278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 333, 333,
    584, 584, 584, 611, 975, 722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944,
    667, 667, 611, 333, 278, 333, 584, 556, 333, 556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556, 278, 889, 611, 611, 611, 611, 389, 556,
    333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584]
BEYOND = {"×": 584, "→": 1000, "–": 556, "—": 1000, "·": 333, "±": 549, "…": 1000, "“": 333, "”": 333, "’": 222, "◊": 494, "−": 584, "µ": 576, "®": 737, "™": 1000}
BEYOND_BOLD = BEYOND | {"“": 500, "”": 500, "’": 278}
NORMAL, BOLD = ({chr(32 + i): width for i, width in enumerate(ascii)} | beyond for ascii, beyond in ((ASCII, BEYOND), (ASCII_BOLD, BEYOND_BOLD)))


def text_width(text, size, bold=False):
    """In px. For letters that are not in the tables it is a guess. What is joined to the letter before takes no room."""
    widths = BOLD if bold else NORMAL
    alone = re.sub("\u200d.", "", text)
    return sum(0 if unicodedata.category(letter) in ("Mn", "Me", "Cf") or "\U0001f3fb" <= letter <= "\U0001f3ff" else
               widths.get(letter) or (1000 if unicodedata.east_asian_width(letter) in "WF" else 600) for letter in alone) * size / 1000


def is_guessed(text):
    return any(letter not in NORMAL for letter in text)


def cut(text, width, size, bold=False):
    """The text, or as much of it as fits into the width, with an ellipsis."""
    text = clean(text)
    while text_width(text, size, bold) > width and len(text) > 1:
        over, shown = text_width(text, size, bold) - width, text.removesuffix("…")
        text = shorten(shown, max(len(shown) - max(int(over / size), 1), 1))
    return text


def wrapped(text, width, size, bold=False, most=3):
    """The text's lines, broken at blanks. The last of `most` lines is cut."""
    lines, words = [""], clean(text).split(" ")
    for i, word in enumerate(words):
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size, bold) <= width or not lines[-1]:
            lines[-1] = longer
        elif len(lines) == most:
            lines[-1] = " ".join([lines[-1], *words[i:]])
            break
        else:
            lines.append(word)
    return [cut(line, width, size, bold) for line in lines]


def fitted(svg):
    """The drawing with a width for every text, into which a wider font is squeezed. A guess is not imposed."""
    def sized(attributes, text, size, bold):
        said = html.unescape(text)
        if len(said) < 2 or is_guessed(said):
            return attributes
        return f'{attributes} textLength="{text_width(said, size, bold):.1f}" lengthAdjust="spacingAndGlyphs"'

    def one(match):
        attributes, content = match.groups()
        size = float(re.search(r'font-size="([\d.]+)px"', attributes)[1])
        bold = 'font-weight="bold"' in attributes
        if "<tspan" not in content:
            return f"<text{sized(attributes, content, size, bold)}>{content}</text>"
        return f"<text{attributes}>" + re.sub(r"<tspan([^>]*)>([^<]*)</tspan>",
                                              lambda m: f"<tspan{sized(m[1], m[2], size, bold)}>{m[2]}</tspan>", content) + "</text>"

    return re.sub(r'<text( [^>]*font-size="[^>]*[^>/])>(.*?)</text>', one, svg, flags=re.S)
