"""What code stands on is read from its imports."""

from vergence.runs.imports import dependencies


def names(root, *files):
    return [str(path.relative_to(root)) for path in dependencies([root / file for file in files], root)]


def package(tmp_path):
    root = tmp_path / "pack"
    (root / "parts").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "parts" / "__init__.py").write_text("from pack.parts.a import A\nfrom pack.parts.b import B\nC = 3\n")
    (root / "parts" / "a.py").write_text("from pack.base import thing\nclass A: ...\n")
    (root / "parts" / "b.py").write_text("class B: ...\n")
    (root / "base.py").write_text("import os\nthing = 1\n")
    return root


def test_imports_are_followed_to_their_end(tmp_path):
    root = package(tmp_path)
    (root / "use.py").write_text("def late():\n    from pack.parts.a import A\n")
    assert names(root, "use.py") == ["base.py", "parts/a.py"]


def test_a_name_that_a_package_passes_on_leads_to_where_it_comes_from(tmp_path):
    root = package(tmp_path)
    (root / "use.py").write_text("from pack.parts import B\n")
    assert names(root, "use.py") == ["parts/b.py"]


def test_a_package_used_for_itself_brings_all_it_imports(tmp_path):
    root = package(tmp_path)
    (root / "use.py").write_text("from pack.parts import C\n")
    assert names(root, "use.py") == ["base.py", "parts/__init__.py", "parts/a.py", "parts/b.py"]


def test_modules_of_a_package_are_found_as_names_too_and_circles_end(tmp_path):
    root = package(tmp_path)
    (root / "base.py").write_text("from pack import use\n")
    (root / "use.py").write_text("from pack import base\nimport pack.parts.b\n")
    assert names(root, "use.py") == ["base.py", "parts/b.py"]
