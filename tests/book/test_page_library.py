"""What the reader's browser keeps of the standard library: an archive with its files compiled as well."""

from __future__ import annotations

import sys
import zipfile
import zipimport
from pathlib import Path

from cutecourse.page.library import compiled, loaded_files


def archive(folder: Path) -> Path:
    path = folder / "library.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("kept_one.py", "def where():\n    raise ValueError('here')\n")
        made.writestr("kept_two.py", "value = 2\n")
        made.writestr("words.txt", "no module")
    return path


def test_compiled__has_the_named_files_compiled_and_all_files_as_they_were(tmp_path: Path) -> None:
    path = archive(tmp_path)
    steps = [*compiled(str(path), ["kept_one.py", "words.txt"])]
    assert steps[:-1] == [None]
    before = zipfile.ZipFile(path)
    (tmp_path / "new.zip").write_bytes(steps[-1] or b"")
    after = zipfile.ZipFile(tmp_path / "new.zip")
    assert set(after.namelist()) == {*before.namelist(), "kept_one.pyc"}
    assert all(after.read(name) == before.read(name) for name in before.namelist())


def test_compiled__is_what_python_imports(tmp_path: Path) -> None:
    path = archive(tmp_path)
    *_, new = compiled(str(path), ["kept_one.py"])
    path.write_bytes(new or b"")
    importer = zipimport.zipimporter(str(path))
    assert importer.get_filename("kept_one") == f"{path}/kept_one.pyc"
    code = importer.get_code("kept_one")
    assert code.co_filename == f"{path}/kept_one.py"  # where tracebacks find the text
    assert importer.get_source("kept_one") == zipfile.ZipFile(path).read("kept_one.py").decode()


def test_loaded_files__are_those_of_the_archive(tmp_path: Path) -> None:
    path = archive(tmp_path)
    importer = zipimport.zipimporter(str(path))
    spec = importer.find_spec("kept_two")
    assert spec is not None
    module = type(sys)("kept_two")
    module.__spec__ = spec
    sys.modules["kept_two"] = module
    try:
        assert loaded_files(str(path)) == ["kept_two.py"]
    finally:
        del sys.modules["kept_two"]
