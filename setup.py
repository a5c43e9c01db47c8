"""Puts the folder sweeps/ inside the built package, as idwbench/sweeps; the rest is in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SWEEPS = Path("sweeps")


class BuildWithSweeps(build_py):
    """Copies the sweep files; an editable installation finds them in the folder beside the package."""

    def run(self) -> None:
        """Build the package."""
        super().run()
        if not self.editable_mode:
            for target, source in self._sweeps().items():
                self.mkpath(str(Path(target).parent))
                self.copy_file(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Return the files that are built."""
        return [*super().get_outputs(include_bytecode), *([] if self.editable_mode else self._sweeps())]

    def _sweeps(self) -> dict[str, str]:
        """Return the sources by target."""
        folder = Path(self.build_lib, "idwbench")
        return {str(folder / file): str(file) for file in sorted(SWEEPS.rglob("*.yaml"))}


setup(cmdclass={"build_py": BuildWithSweeps})
