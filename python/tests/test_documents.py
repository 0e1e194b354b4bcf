"""The examples of the documents and the docstrings run."""

from __future__ import annotations

import doctest
import importlib.util
import pathlib
import pkgutil
import re
import shutil
import sys

import pannier
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", ROOT / "python" / "README.md", ROOT / "docs" / "reference" / "python.md"]
PAGES += [page for page in sorted((ROOT / "docs" / "how-to").glob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))]
MODULES = sorted(module.name for module in pkgutil.walk_packages(pannier.__path__, "pannier."))
FRAMEWORKS = {
    "langchain": "langchain", "llama_index": "llama_index.core", "pydantic_ai": "pydantic_ai",
    "openai_agents": "agents", "litellm": "litellm", "haystack": "haystack",
}  # fmt: skip


def example(page: pathlib.Path) -> str:
    """Returns the code of a page as one program."""
    return "\n\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))


def framework_of(name: str) -> str | None:
    """Returns the framework of a page or a module."""
    return FRAMEWORKS.get(name.removeprefix("use-with-").removeprefix("_").removesuffix("_messages").replace("-", "_"))


def require(name: str) -> None:
    framework = framework_of(name)
    if framework is not None:
        pytest.importorskip(framework, reason="the adapters for frameworks; .ci/python --long tests them")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(page: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(page.stem)
    code = example(page)
    assert code, page
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    # Data classes and models of pydantic look names up in their module.
    module = type(sys)("example")
    monkeypatch.setitem(sys.modules, "example", module)
    exec(compile(code, str(page), "exec"), module.__dict__)


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith(("__main__", "_pannier"))])
def test_the_examples_of_a_module_run(name: str) -> None:
    require(name.rpartition(".")[2])
    module = importlib.import_module(name)
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    assert doctest.testmod(module, optionflags=flags).failed == 0


def test_adapters_are_short() -> None:
    for path in (ROOT / "python" / "pannier" / "adapters").glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 100, path.name


if __name__ == "__main__":
    # Writes the examples of all pages whose framework is installed, for type checkers.
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for page in PAGES:
        framework = framework_of(page.stem)
        if framework is None or importlib.util.find_spec(framework.partition(".")[0]):
            name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
            (folder / f"{name}.py").write_text(example(page), encoding="utf-8")
