"""Make a container image of a folder that holds a system, without a container engine.

::

    python3 -m tools.oci_image ROOT ARCHIVE --version 1.2.3 [--architecture amd64]

The image has one layer.  The archive is an OCI image layout that ``docker load``, ``podman load`` and
``skopeo copy oci-archive:ARCHIVE`` take.  The same folder makes the same bytes: names are sorted, and no time
is later than ``SOURCE_DATE_EPOCH``.

Sources: OCI image format 1.0 (image-layout, config, manifest, layer).
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import sys
import tarfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final

RUNNING: Final[dict[str, Any]] = {  # Any: JSON
    "User": "65532:65532",
    "Env": [
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG=C.UTF-8",
        "STATE_DIRECTORY=/var/lib/mgw",
        "LOGS_DIRECTORY=/var/log/mgw",
        "GATEWAY_LISTEN=:8787",
        "PYTHONDONTWRITEBYTECODE=1",
    ],
    "WorkingDir": "/var/lib/mgw",
    "Volumes": {"/var/lib/mgw": {}},
    "ExposedPorts": {"8787/tcp": {}},
    "StopSignal": "SIGTERM",
    "Healthcheck": {
        "Test": [
            "CMD",
            "/usr/lib/mgw/bin/python3",
            "-c",
            "from urllib.request import urlopen; urlopen('http://127.0.0.1:8787/healthz', timeout=4)",
        ],
        "Interval": 10_000_000_000,
        "Timeout": 5_000_000_000,
        "Retries": 3,
    },
    "Entrypoint": ["/usr/bin/mgw"],
    "Cmd": ["run", "-c", "/etc/mgw.yaml"],
}
"""How a container of the image runs; ``etc/deployment/Dockerfile`` says the same."""
EMPTY: Final = frozenset({"dev", "proc", "run", "sys", "tmp"})
"""Folders that a container engine fills."""
_MEDIA: Final = "application/vnd.oci.image."


def write_layer(root: Path, out: IO[bytes], epoch: int) -> str:
    """Write a folder as the compressed layer of an image; return the digest of what was compressed."""
    with gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0, compresslevel=6) as compressed:
        digesting = _Digesting(compressed)
        with tarfile.open(fileobj=digesting, mode="w|", format=tarfile.PAX_FORMAT) as layer:
            _add_all(layer, root, epoch)
    return digesting.digest


def write_image(root: Path, archive: Path, version: str, architecture: str, epoch: int) -> int:
    """Write the archive of an image; return the bytes of its layer."""
    with TemporaryFile(dir=archive.parent) as layer:
        uncompressed = write_layer(root, layer, epoch)
        size = layer.tell()
        layer.seek(0)
        digest = _digest_of(layer)
        created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        labels = {
            "org.opencontainers.image.title": "mgw",
            "org.opencontainers.image.description": "A gateway for language models",
            "org.opencontainers.image.licenses": "MIT",
            "org.opencontainers.image.version": version,
            "org.opencontainers.image.created": created,
        }
        config = _json(
            {
                "created": created,
                "architecture": architecture,
                "os": "linux",
                "config": {**RUNNING, "Labels": labels},
                "rootfs": {"type": "layers", "diff_ids": [uncompressed]},
                "history": [{"created": created, "created_by": "tools/oci_image.sh"}],
            }
        )
        manifest = _json(
            {
                "schemaVersion": 2,
                "mediaType": f"{_MEDIA}manifest.v1+json",
                "config": _descriptor("config.v1+json", config),
                "layers": [{"mediaType": f"{_MEDIA}layer.v1.tar+gzip", "digest": digest, "size": size}],
                "annotations": labels,
            }
        )
        entry = {
            **_descriptor("manifest.v1+json", manifest),
            "platform": {"architecture": architecture, "os": "linux"},
            "annotations": {
                "io.containerd.image.name": f"docker.io/library/mgw:{version}",
                "org.opencontainers.image.ref.name": version,
            },
        }
        index = {"schemaVersion": 2, "mediaType": f"{_MEDIA}index.v1+json", "manifests": [entry]}
        layer.seek(0)
        with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as written:
            _add(written, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}), epoch)
            _add(written, "index.json", _json(index), epoch)
            _add(written, _blob(config), config, epoch)
            _add(written, _blob(manifest), manifest, epoch)
            _add_stream(written, f"blobs/sha256/{digest.removeprefix('sha256:')}", layer, size, epoch)
    return size


class _Digesting(io.RawIOBase):
    """Passes bytes on, and knows the digest of all of them."""

    def __init__(self, out: gzip.GzipFile) -> None:
        self._out = out
        self._hash = sha256()

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # Any: whatever has a buffer
        self._hash.update(data)
        return self._out.write(data)


def _add_all(layer: tarfile.TarFile, root: Path, epoch: int) -> None:
    for path in _below(root):
        name = str(path.relative_to(root))
        member = layer.gettarinfo(path, name)
        if member is None:  # a socket
            continue
        member.mtime = min(int(member.mtime), epoch)
        member.uname = member.gname = ""
        if member.isreg():
            with path.open("rb") as content:
                layer.addfile(member, content)
        else:
            layer.addfile(member)


def _below(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders.sort()
        here = Path(folder)
        for name in sorted([*folders, *files]):
            yield here / name
        if here == root:
            folders[:] = [name for name in folders if name not in EMPTY]
        folders[:] = [name for name in folders if not (here / name).is_symlink()]


def _add(archive: tarfile.TarFile, name: str, data: bytes, epoch: int) -> None:
    _add_stream(archive, name, io.BytesIO(data), len(data), epoch)


def _add_stream(archive: tarfile.TarFile, name: str, stream: IO[bytes], size: int, epoch: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, epoch, 0o644
    archive.addfile(member, stream)


def _digest_of(stream: IO[bytes]) -> str:
    digest = sha256()
    while piece := stream.read(1 << 20):
        digest.update(piece)
    return f"sha256:{digest.hexdigest()}"


def _descriptor(kind: str, data: bytes) -> dict[str, Any]:  # Any: JSON
    return {"mediaType": f"{_MEDIA}{kind}", "digest": f"sha256:{sha256(data).hexdigest()}", "size": len(data)}


def _blob(data: bytes) -> str:
    return f"blobs/sha256/{sha256(data).hexdigest()}"


def _json(value: Any) -> bytes:  # Any: JSON
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="tools.oci_image", description=__doc__.partition("\n")[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--architecture", default="amd64")
    said = parser.parse_args(arguments)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", datetime.now(UTC).timestamp()))
    size = write_image(said.root, said.archive, said.version, said.architecture, epoch)
    sys.stdout.write(f"{said.archive}: {said.archive.stat().st_size} bytes, of which the layer has {size}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
