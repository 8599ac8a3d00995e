"""`ladder tokenize` against tiktoken, id by id.

LADDER names the program, LADDER_TEST_VOCAB the rank file gpt2.tiktoken, LADDER_TEST_SHARED (optional) a folder with
tinyshakespeare.txt. tiktoken reads nothing from the network here: its Encoding is built from the rank file. Its Unicode
tables are those of version 16; a PCRE2 with newer tables would differ on letters added since.
"""

import base64
import os
import pathlib
import random
import subprocess

import numpy as np
import pytest

tiktoken = pytest.importorskip("tiktoken")

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2007\u200a\u2028\u2029\u202f\u205f\u3000"
NEARLY_WHITE_SPACE = "\x1c\x1d\x1e\x1f\u180e\u200b\u200c\u200d\u2060\ufeff\0\x08\x7f"
NASTY = ["", " ", "  ", "\n", "a", "'", "<|endoftext|>"]
NASTY_IN_THE_MIDDLE = [
    "it's IT'S we'll WE'LL i've I'd 'tis ''''s 's's 're're'd \u2019s \u2018ll",
    "1st 2\u00b2 \u00bd \u2167 \u0663\u0664 12,345.67e-8",
    "\u4e2d\u6587\u5b57 \u65e5\u672c\u8a9e \ud55c\uad6d\uc5b4",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0939\u093f\u0928\u094d\u0926\u0940",
    "e\u0301 \u00e9 A\u030a \u212b \ufb01 \u0130i \u00df\u1e9e",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f \U0001f600\U0001f600",
    "\U00031350\U0002ebf0 \U00011f04 \U0001e4f0",
    "\ufeffbyte order mark \ufffe \uffff \U0010ffff \ue000",
    "x" * 5000 + " " * 5000 + "\n" * 300 + "!" * 700,
    "def f(x):\n\treturn  x   # \t comment \n\n\n\n",
]


@pytest.fixture(scope="module")
def vocabulary() -> str:
    return os.environ.get("LADDER_TEST_VOCAB") or pytest.skip("LADDER_TEST_VOCAB is not set")


@pytest.fixture(scope="module")
def encoding(vocabulary: str) -> "tiktoken.Encoding":
    lines = pathlib.Path(vocabulary).read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}
    return tiktoken.Encoding(
        "gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256}, explicit_n_vocab=50257
    )


@pytest.fixture
def tokenize(vocabulary: str, tmp_path: pathlib.Path):
    program = os.environ.get("LADDER") or pytest.skip("LADDER is not set")

    def run(text: bytes) -> subprocess.CompletedProcess:
        (tmp_path / "text.txt").write_bytes(text)
        command = [program, "tokenize", "--vocab", vocabulary, "--data", "text.txt", "--out", "tokens.bin"]
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def assert_same(encoding: "tiktoken.Encoding", tokenize, tmp_path: pathlib.Path):
    def check(text: str) -> None:
        done = tokenize(text.encode())
        assert done.returncode == 0, done.stderr
        header = np.fromfile(tmp_path / "tokens.bin", "<i4", 256)
        ours = np.fromfile(tmp_path / "tokens.bin", "<u2", offset=1024)
        theirs = np.array(encoding.encode_ordinary(text), "<u2")
        assert header[:3].tolist() == [20240520, 1, len(ours)] and not header[3:].any()
        same = min(len(ours), len(theirs))
        differ = np.flatnonzero(ours[:same] != theirs[:same])
        at = int(differ[0]) if len(differ) else same
        context = encoding.decode_bytes(theirs[max(at - 5, 0) : at + 5].tolist())
        assert len(ours) == len(theirs) and not len(differ), f"differ from token {at} on, near {context!r}"

    return check


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_nasty_texts(assert_same, text: str) -> None:
    assert_same(text)


def test_nasty_texts_among_others(assert_same) -> None:
    assert_same("a line\n".join(NASTY_IN_THE_MIDDLE))


def test_every_code_point(assert_same) -> None:
    """'s is a piece after letters and numbers only; two newlines are one token only before white space."""
    assert_same("".join(chr(code) + "'s\n\n" for code in range(0x110000) if not 0xD800 <= code < 0xE000))


def test_random_code_points(assert_same) -> None:
    source = random.Random(1)
    limits = (0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x110000)
    codes = (source.randrange(source.choice(limits)) for _ in range(300_000))
    assert_same("".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000))


def test_white_space_mixtures(assert_same) -> None:
    source = random.Random(2)
    alphabet = WHITE_SPACE * 2 + NEARLY_WHITE_SPACE + "   \n\n" * 5 + "aB1!'\u00e9\u4e2d"
    assert_same("".join(source.choice(alphabet) for _ in range(300_000)))


def test_words_of_many_tokens(assert_same) -> None:
    source = random.Random(3)
    words = ("".join(source.choice("etaoinshrdlu'") for _ in range(source.randrange(1, 60))) for _ in range(20_000))
    assert_same(" ".join(words))


def test_tinyshakespeare(assert_same) -> None:
    shared = os.environ.get("LADDER_TEST_SHARED") or pytest.skip("LADDER_TEST_SHARED is not set")
    assert_same((pathlib.Path(shared) / "tinyshakespeare.txt").read_text(encoding="utf-8"))
