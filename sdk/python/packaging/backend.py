"""Builds the wheel and the sdist of the client, as a build backend of PEP 517.

It needs the standard library only, so `pip install` needs no network and nothing else decides what
is in the packages. The same files, version and SOURCE_DATE_EPOCH give the same bytes.
"""

import base64
import gzip
import hashlib
import io
import os
import tarfile
import time
import tomllib
import zipfile

_OLDEST = 315532800  # 1980-01-01, the first time that a zip file can hold


def _project():
    with open("pyproject.toml", "rb") as file:
        return tomllib.load(file)["project"]


def _date():
    return max(_OLDEST, int(os.environ.get("SOURCE_DATE_EPOCH", _OLDEST)))


def _read(name):
    with open(name, "rb") as file:
        return file.read()


def _license():
    """The licence is beside this project in an sdist, and at the top of a checkout."""
    return _read("LICENSE" if os.path.exists("LICENSE") else "../../LICENSE")


def _sources(*folders):
    return sorted(f"{folder}/{name}" for folder in folders for name in os.listdir(folder)
                  if name.endswith((".py", ".typed")))


def _metadata(project):
    head = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        "License-File: LICENSE",
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
    ]
    for label, url in project["urls"].items():
        head.append(f"Project-URL: {label}, {url}")
    for needed in project.get("dependencies", []):
        head.append(f"Requires-Dist: {needed}")
    return ("\n".join(head) + "\n\n").encode() + _read("README.md")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel to a folder and returns the name of its file."""
    project = _project()
    name = f"{project['name']}-{project['version']}"
    info = name + ".dist-info"
    files = {path: _read(path) for path in _sources("budgetd")}
    files[info + "/licenses/LICENSE"] = _license()
    files[info + "/METADATA"] = _metadata(project)
    files[info + "/WHEEL"] = (b"Wheel-Version: 1.0\nGenerator: budgetd\n"
                              b"Root-Is-Purelib: true\nTag: py3-none-any\n")
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    files[info + "/RECORD"] = (record + info + "/RECORD,,\n").encode()
    wheel = name + "-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w") as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, time.gmtime(_date())[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whatever builds it
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    """Writes the sdist, with the tests, to a folder and returns the name of its file."""
    project = _project()
    name = f"{project['name']}-{project['version']}"
    files = {path: _read(path) for path in ["README.md", "pyproject.toml",
                                            *_sources("budgetd", "packaging", "tests")]}
    files["LICENSE"] = _license()
    files["PKG-INFO"] = _metadata(project)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mtime, entry.mode = len(content), _date(), 0o644
            archive.addfile(entry, io.BytesIO(content))
    with open(os.path.join(sdist_directory, name + ".tar.gz"), "wb") as file:
        file.write(gzip.compress(packed.getvalue(), mtime=_date()))
    return name + ".tar.gz"
