"""README and docs/: what they show runs, what they name exists, nothing is left out."""

from __future__ import annotations

import doctest
import glob
import html
import re
import shlex
import shutil
import sys
import tomllib
import warnings
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer.main

import claims
import conformance as stored
import halfulp
from contrast import contrast
from halfulp import cli
from halfulp.conformance.report.summary import matrix
from halfulp.conformance.verdicts import EXACT, REFUSED, ULPS
from halfulp.report.html import DARK, LIGHT

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
made = import_module("pages")
# Written when the site is built, perhaps long ago.
MADE = {DOCS / name for name in made.MADE}
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")),
    *(page for page in sorted(DOCS.rglob("*.md")) if page not in MADE),
]

# Blocks that are not run, by their language.
NOT_RUN = {
    "cpp": "C++: tests/native/onnxruntime_host.c makes the same calls",
    "csharp": "C#: needs .NET and its package of ONNX Runtime",
    "java": "Java: needs a JDK and its package of ONNX Runtime",
    "text": "output or a picture",
    "{toctree}": "Sphinx",
    "{eval-rst}": "Sphinx",
}

# Classes that are not made by hand, but returned.
RETURNED = {
    "halfulp.onnx.backend.Rep",
    "halfulp.onnx.model_check.CheckReport",
    "halfulp.onnx.model_check.Finding",
    "halfulp.onnx.model_check.NodeFacts",
    "halfulp.onnx.rewrite.Candidate",
    "halfulp.onnx.rewrite.RewriteReport",
}

# Not of this code: C's, NumPy's, and an example.
OTHERS_NAMES = {"FLT_EVAL_METHOD", "__array__", "rows_plain_float32"}

FENCE = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

each_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: str(page.relative_to(ROOT))
)


def _blocks(page: Path, language: str) -> Iterator[str]:
    for found, text in FENCE.findall(page.read_text()):
        if found == language:
            yield text


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a reader: the examples, a model, an input of it, a checkpoint."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shutil.copy(ROOT / "examples/kmeans_digits_opset18.onnx", tmp_path / "model.onnx")
    shutil.copy(ROOT / "examples/digits.npy", tmp_path / "x.npy")
    shutil.copy(tmp_path / "x.npy", tmp_path / "activations.npy")
    header = b'{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'
    shard = len(header).to_bytes(8, "little") + header + bytes(8)
    for name in ("model-1", "model-2", "shard-0017"):
        (tmp_path / f"{name}.safetensors").write_bytes(shard)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@each_page
def test_each_block_of_code_is_run_or_of_a_language_that_is_not(page: Path) -> None:
    text = page.read_text()
    blocks = FENCE.findall(text)
    assert {language for language, _ in blocks} <= {"python", "console", *NOT_RUN}
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(blocks)


@each_page
def test_python_gives_what_is_shown(page: Path, reader: Path) -> None:
    if page.name == "pytorch.md":
        pytest.importorskip("torch")
        pytest.importorskip("onnxscript")
        warnings.simplefilter("ignore")  # PyTorch's exporter warns of itself
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner(verbose=False)
    parser = doctest.DocTestParser()
    for text in _blocks(page, "python"):
        test = parser.get_doctest(text, names, page.name, str(page), 0)
        assert test.examples, text
        assert runner.run(test, clear_globs=False).failed == 0
        names.update(test.globs)


@each_page
def test_commands_end_well_and_print_what_is_shown(
    page: Path, reader: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in _blocks(page, "console"):
        commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
        assert commands, text
        for command, shown in commands:
            program, *given = shlex.split(command, comments=True)
            arguments = [file for a in given for file in sorted(glob.glob(a)) or [a]]
            if program == "make":
                continue  # minutes; that the target exists is tested below
            if program == "halfulp":
                assert cli.main(arguments) == 0
            else:
                assert [program, arguments[0]] == ["python", "-c"], command
                exec(compile(arguments[1], command, "exec"), {})
            printed = capsys.readouterr().out
            if shown:
                assert printed.split() == shown.split()


@each_page
def test_targets_of_make_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for text in _blocks(page, "console"):
        for target in re.findall(r"^\$ make ([\w-]+)", text, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def _slug(title: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it."""
    plain = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", html.unescape(title))
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def _anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text())
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {_slug(title) for title in titles} | set(
        re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE)
    )


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if file in MADE:
            continue
        assert file.exists(), target
        if anchor:
            assert anchor in _anchors(file), target


def _files() -> list[str]:
    """All files that a page may name."""
    folders = ("native", "src", "tests", "benchmarks", "docs", "examples")
    found = [file for folder in folders for file in (ROOT / folder).rglob("*")]
    return [str(file.relative_to(ROOT)) for file in [*found, *ROOT.iterdir()]]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "SECURITY.md"], ids=lambda p: p.name)
def test_files_and_names_of_the_code_exist(page: Path) -> None:
    """In words, code is in backticks: paths, and names with _ or a capital within."""
    files = _files()
    code = "".join(
        (ROOT / file).read_text()
        for file in files
        if re.search(r"\.(h|cpp|inc|c|py)$|^Makefile$|^CMakeLists.txt$", file)
        and not file.endswith("tests/docs/test_docs.py")
    )
    for text in re.findall(r"`([^`\n]+)`", FENCE.sub("", page.read_text())):
        if "NAME" in text or text in OTHERS_NAMES:
            continue
        if re.fullmatch(r"[\w./*-]+(\.(h|cpp|inc|py|md|toml|c|json)|/)", text):
            name = f"*/{text.rstrip('/')}"
            assert any(fnmatch(f"/{file}", name) for file in files), text
        elif re.fullmatch(r"[A-Za-z_][\w.]*(_|[a-z][A-Z])\w*", text):
            assert re.search(rf"\b{text.rpartition('.')[2]}\b", code), text


def test_sections_that_comments_name_exist() -> None:
    named = []
    for folder in ("native", "src/halfulp", "tests"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".inc", ".py"):
                continue
            for line in file.read_text().splitlines():
                match = re.search(r"(docs/[\w/-]+\.md)#", line)
                anchors = re.findall(r"#([a-z][a-z0-9-]+)", line) if match else []
                named += [(file.name, match[1], anchor) for anchor in anchors if match]
    assert len({anchor for _, _, anchor in named}) >= 10
    for file_name, page, anchor in named:
        assert anchor in _anchors(ROOT / page), (file_name, page, anchor)


def test_every_section_of_the_proof_is_named_by_code() -> None:
    """A bound without a section, or a section without code, is a slip."""
    code = "".join(
        file.read_text() for file in sorted((ROOT / "native").rglob("*.[hci]*"))
    )
    table = (DOCS / "exactness.md").read_text().split("| section | code |")[1]
    for anchor in re.findall(r"^\| \[[^]]*\]\(#([\w-]+)\)", table, re.MULTILINE):
        assert f"#{anchor}" in code, anchor


def _public() -> Iterator[str]:
    for module in MODULES:
        for name in import_module(module).__all__:
            yield f"{module}.{name}"
    for name in ("prepare", "run_model", "run_node", "is_compatible", "supports_device"):
        yield f"halfulp.onnx.backend.{name}"


# Those whose names are public.
MODULES = (
    "halfulp",
    "halfulp.duckdb",
    "halfulp.onnx",
    "halfulp.onnxruntime",
    "halfulp.spec",
)


@pytest.mark.parametrize("name", MODULES)
def test_dir_shows_the_public_names_and_nothing_else(name: str) -> None:
    module = import_module(name)
    assert dir(module) == sorted(module.__all__)
    for public in dir(module):
        assert getattr(module, public) is not None


def test_the_reference_has_every_public_name_and_no_other() -> None:
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    directives = re.findall(r"^\.\. (?:auto\w+|module):: (halfulp[\w.]+)$", text, re.M)
    assert len(directives) == len(set(directives))
    # A module of the package is there by what it holds.
    expected = {name for name in _public() if name != "halfulp.check_environment"}
    assert set(directives) == expected | RETURNED


@pytest.mark.parametrize("name", sorted(RETURNED))
def test_classes_of_the_reference_are_where_it_says(name: str) -> None:
    module, _, class_name = name.rpartition(".")
    assert isinstance(getattr(import_module(module), class_name), type)


def test_pages_are_in_the_contents() -> None:
    index = (DOCS / "index.md").read_text()
    entries = [
        line
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", index, re.M | re.S)
        for line in block.splitlines()
        if line and not line.startswith(":")
    ]
    for page in {*DOCS.rglob("*.md"), *(page for page in MADE if page.suffix == ".md")}:
        name = page.relative_to(DOCS).with_suffix("").as_posix()
        assert name == "index" or any(Path(name).match(entry) for entry in entries), name


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for sub, one in getattr(command, "commands", {}).items():
        yield from _commands(one, f"{name} {sub}")


def test_the_command_reference_has_every_command_option_and_argument() -> None:
    text = made.commands()
    assert text.startswith("# Command line\n")
    assert not re.search(r"(?m)^\* .*\.\.\.$", text)
    assert "Example:  " not in text
    found = [*_commands(typer.main.get_command(cli.app), "halfulp")]
    assert len(found) > 10
    for name, command in found:
        title = "# Command line" if name == "halfulp" else f"# `{name}`"
        (part,) = re.findall(rf"{title}\n(.*?)(?=\n##+ |\Z)", text, re.DOTALL)
        plain = html.unescape(part)
        assert command.help.split("\n\n")[0] in plain
        assert f"Example: `{name}" in plain or "Example:" not in command.help
        for parameter in command.params:
            if not parameter.hidden:
                words = parameter.opts if parameter.param_type_name == "option" else []
                assert all(f"`{word}" in plain or f", {word}" in plain for word in words)
        for sub in getattr(command, "commands", {}):
            anchor = f"{name} {sub}".replace(" ", "-")
            assert f"[`{sub}`](#{anchor})" in plain


def test_the_changelog_is_on_the_site() -> None:
    text = made.changelog()
    assert text.startswith("# Changelog\n")
    assert (ROOT / "CHANGELOG.md").read_text().splitlines()[-1] in text
    assert "](docs/" not in text


def test_the_package_and_the_changelog_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == halfulp.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == halfulp.__version__


def test_verdicts_on_the_site_have_the_colours_of_the_report() -> None:
    colours = {EXACT: ["good"], ULPS: ["warn"], REFUSED: ["refused"]}
    seen = set()
    runs = stored.load(claims.RESULTS / "conformance.json.gz")
    # By these heads docs/conf.py knows the matrices.
    page = (DOCS / "conformance.md").read_text()
    assert page.count("\n| class | bfloat16 |") == len(runs)
    for run in runs:
        for cell in matrix(run).values():
            expected = colours.get(cell.word, ["bad"])
            assert made.verdict_classes(cell.text) == expected, cell
            seen.add(expected[0])
    assert seen == {"good", "warn", "refused", "bad"}
    assert made.verdict_classes("") == []
    style = (DOCS / "_static/site.css").read_text()
    for name in seen:
        assert f"table.heat td.{name} {{" in style


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_coloured_text_has_contrast(scheme: dict[str, str]) -> None:
    for name in ("good", "bad", "warn"):
        for ground in (f"{name}-ground", "paper", "panel"):
            assert contrast(scheme[name], scheme[ground]) >= 4.5
    for name in ("ink", "muted", "link"):
        for ground in ("paper", "panel"):
            assert contrast(scheme[name], scheme[ground]) >= 4.5
    rules = "".join(f" --{name}: {value};" for name, value in scheme.items())
    assert made.colours().count(rules) == (1 if scheme is LIGHT else 2)


def test_pictures_follow_the_theme_that_the_reader_chose() -> None:
    style = (DOCS / "_static/site.css").read_text()
    for theme in ("light", "dark"):
        assert f'body[data-theme="{theme}"] {{ color-scheme: {theme}; }}' in style
    for picture in DOCS.glob("*.svg"):
        assert re.search(r"prefers-color-scheme: ?dark", picture.read_text()), picture


def test_the_picture_is_the_first_of_its_page() -> None:
    names = {path.stem for path in DOCS.glob("benchmarks*.svg")}
    assert names == {path.stem for path in DOCS.glob("benchmarks*.md")}
    for name in names:
        lines = (DOCS / f"{name}.md").read_text().splitlines()
        assert lines[0].startswith("# ")
        assert lines[2].startswith("![")
        assert lines[2].endswith(f"]({name}.svg)")
    readme = (ROOT / "README.md").read_text()
    for source in re.findall(r'<img src="([^"]*)"', readme):
        assert (ROOT / source).is_file()
    assert "docs/accuracy-float32.svg" in readme
