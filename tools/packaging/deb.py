"""The Debian packages: what `cmake --install` copies, packed by CPack (cmake/Package.cmake)."""

import os
import pathlib
import shutil
import tempfile

import debian
import sbom
from project import Failure, run, source_date, version


def write_sboms(build, date):
    """Writes each package's bill of materials into the build folder, where CPack expects it."""
    for name, program in (("longhaul", build / "src/bin/longhaul"),
                          ("longhaul-trainer", build / "src/bin/longhaul-trainer")):
        if not program.is_file():
            continue
        libraries = set(debian.loaded_libraries(program))
        if name == "longhaul":
            for other in ("longhaul-tools", "longhaul-kube"):
                libraries |= set(debian.loaded_libraries(build / "src/bin" / other))
        loaded = debian.packages_of(sorted(libraries))
        compiled = [debian.Package(each) for each in debian.COMPILED_IN]
        components = [sbom.component(package, "dependency, not contained") for package in loaded]
        components += [sbom.component(package, "compiled in") for package in compiled]
        (build / f"{name}.cdx.json").write_text(sbom.document(name, version(), date, components))


def build_debs(build, output):
    """Builds the packages into the folder `output`; returns their paths."""
    config = build / "CPackConfig.cmake"
    if not config.is_file():
        raise Failure(f"{config} does not exist: configure it with cmake --preset release")
    date = source_date()
    write_sboms(build, date)
    with tempfile.TemporaryDirectory(prefix="longhaul-deb-") as temporary:
        run("cpack", "-G", "DEB", "--config", config, "-B", temporary,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(date)})
        made = sorted(pathlib.Path(temporary).glob("*.deb"))
        if not made:
            raise Failure("cpack made no package")
        output.mkdir(parents=True, exist_ok=True)
        for path in made:
            # Under a temporary name first, so that no half-written package is ever in the folder.
            partial = output / (path.name + ".partial")
            shutil.copyfile(path, partial)
            partial.rename(output / path.name)
    return [output / path.name for path in made]
