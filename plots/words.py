"""Values and names as text, for all charts and pages: times, bytes, ratios."""


def clean(text):
    """The text in one line, without white space at its ends."""
    return " ".join(str(text).split())


def shorten(text, limit):
    """At most `limit` characters. The text is cut after a whole word, if one ends in the second half."""
    text = clean(text)
    if len(text) <= limit:
        return text
    blank = text.rfind(" ", limit // 2, limit)
    return text[: blank if blank > 0 else limit - 1].rstrip(" \u200d") + "…"


def wrap(text, limit, most=3):
    """Lines of at most `limit` characters, broken at blanks. The last of `most` lines is shortened."""
    lines = [""]
    for word in clean(text).split(" "):
        word = shorten(word, limit)
        if lines[-1] and len(lines[-1]) + 1 + len(word) > limit:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines if len(lines) <= most else lines[: most - 1] + [shorten(" ".join(lines[most - 1:]), limit)]


def digits3(x):
    """Three significant digits, or the whole number if it has more: 1,512  579  57.9  0.579."""
    if x == 0:
        return "0"
    for decimals, from_ in ((0, 99.95), (1, 9.995), (2, 0.9995), (3, 0.09995)):
        if abs(x) >= from_:
            return f"{x:,.{decimals}f}"
    return f"{x:.3g}"


def plain(x):
    """A figure that is no time: 12,345  12  0.0031."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def milliseconds(x):
    return digits3(x) + " ms"


def times(x, *, sign="×"):
    """2.61×. A change that two decimals would hide keeps three: 0.998×."""
    if abs(x) >= 99.95:
        return f"{x:,.0f}{sign}"
    if abs(x) >= 9.995:
        return f"{x:.1f}{sign}"
    if abs(x) < 0.0995 and x != 0:
        return digits3(x) + sign
    return f"{x:.{3 if x != 1 and f'{x:.2f}' == '1.00' else 2}f}{sign}"


UNKNOWN = 10  # hi / lo of an interval that says nothing, as in text/figures.cpp


def between(lo, hi, form, to=" – "):
    """2.55 – 2.68, or "unknown"."""
    return "unknown" if hi >= UNKNOWN * lo else f"{form(lo)}{to}{form(hi)}"


def percent(x):
    """A share: 47.3 %  2 %."""
    return f"{100 * x:.3g} %"


def count(x):
    """16.4K: three significant digits with K, M, G, T."""
    for unit, name in ((1, ""), (1e3, "K"), (1e6, "M"), (1e9, "G"), (1e12, "T")):
        if abs(x) < 999.5 * unit or name == "T":
            return digits3(x / unit) + name


def rate(x, unit):
    """A rate with its unit's prefix: 416 GFLOP/s  27.1 GB/s."""
    text = count(x)
    return f"{text} {unit}" if text[-1].isdigit() else f"{text[:-1]} {text[-1]}{unit}"


def unit_of(sizes):
    """(name, bytes): the unit for all of these bytes, so that their figures can be compared."""
    return ("MiB", 2**20) if sizes and max(sizes) < 2**30 else ("GiB", 2**30)


def memory(x, unit):
    """x bytes in a unit of unit_of()."""
    name, size = unit
    smallest, decimals = (0.05, 1) if name == "GiB" else (0.5, 0)
    if 0 < x / size < smallest:
        return "<0.1" if decimals else "<1"
    return f"{x / size:,.{decimals}f}"


def number_of(things, one):
    """3 runs, 1 run."""
    return f"{things:,} {one}{'' if things == 1 else 's'}"


def judged_deviation(losses):
    """The deviation that a guard judged: the median over the first steps. None: a loss is not finite."""
    value = losses["deviation"]
    return None if value is None else abs(value)
