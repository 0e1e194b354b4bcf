#!/usr/bin/env python3
"""Makes data sets of questions with known answers from source trees, for `pannier eval docs`.

usage: bench/questions.py OUT TREE…

A question is the first sentence that documents an item, without the item's name: of Python docstrings, of doc comments in Rust and
TypeScript (`OUT/NAME-doc`), and of Markdown sections (`OUT/NAME-md`). The documentation is removed from the copy of the tree, and
the answer is the item itself. A hash chooses the questions, so that the same tree gives the same sets.
"""

import ast
import hashlib
import json
import pathlib
import re
import shutil
import sys

MAX_QUESTIONS = 40
MAX_FILE_BYTES = 400_000
MIN_QUESTION_CHARACTERS = 35
SUFFIXES = {".py", ".rs", ".ts", ".tsx", ".js", ".md", ".mdx", ".rst", ".toml"}
SKIPPED = {".git", "node_modules", "target"}

RUST_ITEM = re.compile(
    r"^(?P<docs>(?:[ \t]*///[^\n]*\n)+)(?:[ \t]*#\[[^\n]*\n)*"
    r"(?P<item>[ \t]*pub (?:const |unsafe |async )*(?:fn|struct|enum|trait) (?P<name>\w+))",
    re.MULTILINE,
)
TYPESCRIPT_ITEM = re.compile(
    r"^(?P<docs>[ \t]*/\*\*(?:[^*]|\*(?!/))*\*/[ \t]*\n)"
    r"(?P<item>[ \t]*(?:export (?:declare |default |async |abstract )*(?:function\*?|class|interface|type|const) (?P<name>[\w$]+)"
    r"|(?:public |static |async )*(?!if\b|for\b|while\b|switch\b|return\b)(?P<method>\w+)\())",
    re.MULTILINE,
)
HEADING = re.compile(r"^#{1,5} +(?P<name>[^\n]+)\n", re.MULTILINE)
PARAGRAPH = re.compile(r"\s*(?P<text>[A-Z][^\n]*(?:\n[^\n#`|>-][^\n]*)*)")
SENTENCE = re.compile(r"(.+?[.!?])(?=\s|$)", re.DOTALL)


def first_sentence(text):
    text = text.strip().split("\n\n")[0]
    found = SENTENCE.match(text)
    return found[1] if found else text


def question(text, words):
    """The text in one line, without these words."""
    for word in words:
        text = re.sub(rf"`*\b{re.escape(word)}\b`*", "", text, flags=re.IGNORECASE)
    return re.sub(r"\s+", " ", text).strip()


def python_items(text):
    """Yields name, question, the characters of the documentation and of the item."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    lines = text.encode().splitlines(keepends=True)

    def offset(line, column):
        before = b"".join(lines[: line - 1]) + lines[line - 1][:column]
        return len(before.decode())

    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        docs = ast.get_docstring(node)
        if docs and not node.name.startswith("_") and len(node.body) > 1:
            string = node.body[0]
            cut = offset(string.lineno, 0), offset(string.end_lineno, string.end_col_offset)
            item = offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)
            yield node.name, question(first_sentence(docs), [node.name]), cut, item


def rust_items(text):
    for found in RUST_ITEM.finditer(text):
        docs = re.sub(r"^\s*/// ?", "", found["docs"], flags=re.MULTILINE)
        start = end = found.start("item")
        depth = 0
        while end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
            if depth == 0 and text[end - 1] in "};":
                break
        sentence = question(first_sentence(docs), [found["name"]])
        yield found["name"], sentence, (found.start("docs"), found.end("docs")), (start, end)


def typescript_items(text):
    for found in TYPESCRIPT_ITEM.finditer(text):
        docs = re.sub(r"^\s*/\*\*|\*/\s*$|^\s*\*(?!/) ?", "", found["docs"], flags=re.MULTILINE).split("\n@")[0]
        name = found["name"] or found["method"]
        start = end = found.start("item")
        depth = 0
        while end < len(text):
            depth += {"{": 1, "}": -1, "(": 1, ")": -1}.get(text[end], 0)
            end += 1
            # A type may have braces within its line, so an item ends with a line.
            if depth <= 0 and text[end - 1] in "};" and text[end : end + 1] in "\n":
                break
        yield name, question(first_sentence(docs), [name]), (found.start("docs"), found.end("docs")), (start, end)


def markdown_items(text):
    headings = list(HEADING.finditer(text))
    for heading, end in zip(headings, [next.start() for next in headings[1:]] + [len(text)]):
        paragraph = PARAGRAPH.match(text, heading.end(), end)
        sentence = paragraph and SENTENCE.match(paragraph["text"])
        if sentence and end - heading.end() - len(sentence[1]) >= 200:
            start = paragraph.start("text")
            words = [word for word in re.findall(r"\w+", heading["name"]) if len(word) > 3]
            cut = start, start + len(sentence[1])
            yield heading["name"], question(sentence[1], words), cut, (heading.start(), end)


READERS = {
    "doc": {".py": python_items, ".rs": rust_items, ".ts": typescript_items},
    "md": {".md": markdown_items, ".mdx": markdown_items},
}


def read(tree):
    for path in sorted(tree.rglob("*")):
        inside = path.relative_to(tree)
        if path.suffix not in SUFFIXES or not path.is_file() or SKIPPED & set(inside.parts):
            continue
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue
        if len(text) <= MAX_FILE_BYTES:
            yield str(inside), text


def is_asked(path):
    return not re.search(r"test|example|change", path, re.IGNORECASE)


def write(folder, files, readers):
    """Writes one data set, and returns the number of its questions."""
    found = []
    for path, text in files.items():
        reader = readers.get(pathlib.Path(path).suffix)
        if reader and is_asked(path):
            for name, asked, cut, item in reader(text):
                id = hashlib.sha256(f"{path} {name} {asked}".encode()).hexdigest()[:12]
                if len(asked) >= MIN_QUESTION_CHARACTERS:
                    found.append((id, asked, path, name, cut, item))
    found = sorted(found)[:MAX_QUESTIONS]
    shutil.rmtree(folder, ignore_errors=True)
    if not found:
        return 0
    gold = []
    for path, text in files.items():
        own = [entry for entry in found if entry[2] == path]
        cuts = sorted(entry[4] for entry in own)

        def position(offset):
            """The byte of a character of the text after the cuts."""
            kept = len(text[:offset].encode())
            return kept - sum(len(text[start:min(end, offset)].encode()) for start, end in cuts if start < offset)

        parts, start = [], 0
        for cut in cuts:
            parts.append(text[start:cut[0]])
            start = cut[1]
        target = folder / "tree" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes("".join([*parts, text[start:]]).encode())
        for id, _, _, name, _, item in own:
            gold.append({"id": id, "items": [[path, position(item[0]), position(item[1]), name]]})
    lines = lambda rows: "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "queries.jsonl").write_text(lines({"id": entry[0], "text": entry[1]} for entry in found))
    (folder / "gold.jsonl").write_text(lines(gold))
    (folder / "qrels.tsv").write_text("".join(f"{entry[0]}\t{entry[2]}\t1\n" for entry in found))
    return len(found)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    out, trees = pathlib.Path(sys.argv[1]), [pathlib.Path(tree).resolve() for tree in sys.argv[2:]]
    for tree in trees:
        if not tree.is_dir():
            sys.exit(f"{tree} is not a folder")
        files = dict(read(tree))
        for kind, readers in READERS.items():
            folder = out / f"{tree.name}-{kind}"
            print(f"{folder}: {write(folder, files, readers)} questions about {len(files)} files")


if __name__ == "__main__":
    main()
