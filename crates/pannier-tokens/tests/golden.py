"""Writes golden.json: token counts of the reference tokenizer for strings that are hard to count.

    pip install tiktoken==0.14
    python golden.py RANKS > golden.json

RANKS is a folder with o200k_base.tiktoken and cl100k_base.tiktoken, as OpenAI publishes them.
"""

import hashlib
import json
import os
import random
import shutil
import sys
import tempfile

ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"


def encodings(ranks):
    """The reference encodings, from rank files instead of the network."""
    cache = tempfile.mkdtemp()
    for name in ["o200k_base", "cl100k_base"]:
        key = hashlib.sha1(ADDRESS.format(name).encode()).hexdigest()
        shutil.copy(os.path.join(ranks, name + ".tiktoken"), os.path.join(cache, key))
    os.environ["TIKTOKEN_CACHE_DIR"] = cache
    import tiktoken

    return {name: tiktoken.get_encoding(name + "_base") for name in ["o200k", "cl100k"]}


def texts():
    yield from [
        "", " ", "  ", "\n", "\r\n", "\t", " \n", "\n ", "\n\n\n", "   \n   ", "a", "A", "1", "12", "123", "1234",
        "don't", "DON'T", "I'LL've", "'s", "x's y'T", "naïve café", "Straße", "ŁÓDŹ", "ﬁn", "İstanbul", "ǅ",
        "e\u0301", "e\u0301\u0323", "\u0301", "한글", "漢字かな交じり文", "ไทย", "देवनागरी", "עברית", "العربية", "Ελληνικά",
        "\u200b", "\u200d", "\ufeff", "\u00a0", "\u2028\u2029", "\u202e abc", "\U0001f600", "👩\u200d👩\u200d👧\u200d👦",
        "🇩🇪🇫🇷", "✅✔️", "\u0000", "\u0001\u0002", "\x7f", "\ue000", "\U000fffff", "\U0010ffff", "𝔘𝔫𝔦", "𠮷野家",
        "<|endoftext|>", "<|fim_prefix|>", "<|endofprompt|>", "<|im_start|>user", "a<|endoftext|>b", "<|", "|>",
        "fn main() { println!(\"{}\", 1 + 2); }", "def f(x):\n    return x ** 2\n", "if (a&&b||!c) { d -= e>>1; }",
        "SELECT * FROM t WHERE a = 'b' -- c", "<div class=\"x\">&nbsp;</div>", "{\"a\": [1, 2.5e-3, null]}",
        "parseHttpHeader parse_http_header PARSE_HTTP_HEADER ParseHTTPHeader", "a.b->c::d", "0xDEADBEEF", "1_000_000",
        "3.14159265358979323846", "https://example.org/a/b?c=d&e=f#g", "user@example.org", "C:\\Users\\x", "../../etc",
        "│ ├── └──", "░▒▓█", "→ ← ↑ ↓", "½ ² ₂ Ⅷ ٣ ९ 五", "…—–“”‘’«»", "http://ünïcödé.example", "\\u00e9 \\n \\t",
    ]
    for base in ["a", "A", "ab", "x ", " ", "\n", "\t", "1", "9876543210", "-", "=", ".", "漢", "あ", "한", "👍", "é",
                 "e\u0301", "\u200d", "<|", "аб", "ع", "()", "\r\n", "'", "_"]:
        for count in [2, 3, 7, 8, 16, 17, 64, 255, 1000]:
            yield base * count
    numbers = random.Random(20261116)
    alphabets = [
        "abcdefghijklmnopqrstuvwxyz ", "ABCabc123 \n\t.,;:!?'\"", "01 23456789.,-", "äöüßéèàçñ aeiou",
        "абвгдежзийклмн ", "漢字仮名交文一二三，。", "한국어문장 을를이가", "🙂👍🏽🔥\u200d\ufe0f ", "{}[]()<>=+-*/&|^%!~ \n",
        "aя漢あ한ع९ก 1\n", "\u0301\u0323\u200b\u200d\ufeff a", "<|>endoftx im_sr",
    ]
    for alphabet in alphabets:
        for length in [1, 5, 20, 80, 300]:
            for _ in range(2):
                yield "".join(numbers.choice(alphabet) for _ in range(length))


def main():
    counters = encodings(sys.argv[1])
    seen = {}
    for text in texts():
        seen.setdefault(text, {name: len(encoding.encode_ordinary(text)) for name, encoding in counters.items()})
    golden = [{"text": text, **counts} for text, counts in seen.items()]
    print("[\n" + ",\n".join(json.dumps(entry, ensure_ascii=True) for entry in golden) + "\n]")


if __name__ == "__main__":
    main()
