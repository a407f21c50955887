"""The wheel: what is in it, that it works outside the repository, and what is said where something is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("ops", "tiling", "autotune", "emulator", "bench")

pytestmark = pytest.mark.timeout(300)


def run(*command: str, cwd: Path, path: str = "", timeout: float = 120) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout)


def python(code: str, *, cwd: Path, path: str = "", timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-c", textwrap.dedent(code), cwd=cwd, path=path, timeout=timeout)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what belongs to the project: building leaves folders behind where it runs."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in (*PACKAGES, "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # By way of the sdist: what that leaves out is missed in the wheel.
    target = tmp_path_factory.mktemp("dist")
    built = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(source), cwd=target)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = target.glob("*.whl")
    return path


def install(what: Path, target: Path) -> Path:
    """`what` installed into a folder of its own, without dependencies and without asking an index."""
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(target))
    installed = run(sys.executable, "-m", "pip", "install", *options, str(what), cwd=target.parent)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    return target


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("installed") / "site")


def test_the_wheel_holds_the_packages_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert wheel.name == "ascend_triton_ops-0.1.0-py3-none-any.whl"
    assert {name.split("/")[0] for name in names} == {*PACKAGES, "ascend_triton_ops-0.1.0.dist-info"}
    assert not [name for name in names if "tests/" in name or name.rpartition("/")[2].startswith(("test_", "conftest"))]
    assert {"ops/py.typed", "tiling/py.typed", "ops/kernels/gcd.py", "ops/kernels/as_strided.py"} <= set(names)
    assert "ascend_triton_ops-0.1.0.dist-info/licenses/LICENSE" in names
    # Whatever is compiled from the vendor's files stays in the user's cache; sources are all that is shipped.
    assert not [name for name in names if name.endswith((".so", ".bc", ".o", ".pyc"))]


def test_every_source_file_is_in_the_wheel(wheel: Path, source: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    there = {
        str(path.relative_to(source))
        for package in PACKAGES
        for path in (source / package).rglob("*")
        if path.is_file() and path.suffix in (".py", ".cpp", ".h", ".inc", ".typed")
    }
    assert there
    assert not there - names


def test_the_metadata_says_what_is_needed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(archive.read("ascend_triton_ops-0.1.0.dist-info/METADATA").decode())
    required = {line.partition(";")[0].strip() for line in metadata.get_all("Requires-Dist", []) if "extra" not in line}
    assert required == {"numpy>=1.26", "platformdirs>=4", "pybind11>=2.13", "torch>=2.6", "triton-ascend==3.2.0"}
    assert set(metadata.get_all("Provides-Extra", [])) == {"emulator", "autotune", "bench", "npu", "dev"}
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == "<3.12,>=3.10"


OUTSIDE = """
    import torch, ops, sys
    a, b = torch.tensor([12, -18, 2**31 - 1], dtype=torch.int32), torch.tensor([8, 27, 0], dtype=torch.int32)
    assert ops.gcd(a, b).tolist() == [4, 9, 2**31 - 1]
    assert ops.as_strided(torch.arange(6), (2, 2), (1, 2)).tolist() == [[0, 2], [1, 3]]
    assert ops.plan_gcd(a, b).problem is not None
    print(ops.__file__)
"""


def test_the_wheel_works_outside_the_repository(site: Path, tmp_path: Path) -> None:
    done = python(OUTSIDE, cwd=tmp_path, path=str(site))
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(site)


def test_pip_install_of_the_folder_works_too(source: Path, tmp_path: Path) -> None:
    target = install(source, tmp_path / "site")
    assert (target / "ops" / "py.typed").exists()
    assert not (target / "tests").exists()
    done = python("import ops; print(ops.__file__, ops.gcd)", cwd=tmp_path, path=str(target))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(target))


@pytest.fixture
def foreign_triton(tmp_path: Path) -> Path:
    """A folder with a package named triton that has back ends, but not Ascend's: what upstream's wheel leaves."""
    backends = tmp_path / "foreign" / "triton" / "backends"
    (backends / "nvidia").mkdir(parents=True)
    for folder in (backends.parent, backends, backends / "nvidia"):
        (folder / "__init__.py").write_text("")
    return tmp_path / "foreign"


def test_upstream_triton_in_the_way_is_one_clear_error(site: Path, foreign_triton: Path, tmp_path: Path) -> None:
    failed = python("import ops", cwd=tmp_path, path=f"{foreign_triton}{os.pathsep}{site}")
    assert failed.returncode != 0
    assert "ImportError: triton-ascend is missing, or upstream triton was installed over it" in failed.stderr
    assert "python -m pip uninstall --yes triton && python -m pip install --force-reinstall --no-deps" in failed.stderr
    assert "triton-ascend==3.2.0" in failed.stderr.splitlines()[-1]
    assert failed.stderr.count("Traceback") == 1


def test_no_triton_at_all_is_the_same_error(site: Path, tmp_path: Path) -> None:
    code = """
        import sys
        sys.modules["triton"] = None
        import ops
    """
    failed = python(code, cwd=tmp_path, path=str(site))
    assert failed.returncode != 0
    assert "triton-ascend==3.2.0" in failed.stderr.splitlines()[-1]


BARE = """
    import sys

    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {absent}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

    sys.meta_path.insert(0, Absent())
    import ops, tiling
    print(sorted(name for name in sys.modules if name.partition(".")[0] in {unwanted}))
"""


def test_import_needs_neither_an_npu_nor_the_compiler_nor_any_extra(site: Path, tmp_path: Path) -> None:
    absent = ("torch_npu", "ascendnpu_ir", "llvmlite", "filelock", "rich", "matplotlib", "hypothesis")
    unwanted = ("emulator", "autotune", "bench", "torch_npu")
    done = python(BARE.format(absent=absent, unwanted=unwanted), cwd=tmp_path, path=str(site))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_types_reach_a_strict_user(site: Path, tmp_path: Path) -> None:
    user = tmp_path / "user.py"
    user.write_text(
        textwrap.dedent("""
            import torch

            import ops

            result: torch.Tensor = ops.gcd(torch.ones(3), torch.ones(3))
            view: torch.Tensor = ops.as_strided(result, (2, 2), (1, 1), storage_offset=0)
            print(ops.plan_gcd(result, view))
            wrong: int = ops.gcd(result, view)
            ops.gcd(1, 2)
        """)
    )
    checked = run(
        sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(user),
        cwd=tmp_path, path=str(site), timeout=280,
    )  # fmt: skip
    lines = [line for line in checked.stdout.splitlines() if line.startswith("user.py")]
    assert [line.partition(":")[2].partition(":")[0] for line in lines if "error" in line] == ["9", "10", "10"], lines
