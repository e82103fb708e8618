#!/usr/bin/env bash
# Build a container image with the Debian package, without a container engine, and try it: a clean Debian 12 in a
# folder, the package, an archive in dist/, and a container's process in what the archive holds.
#
#   tools/oci_image.sh [PACKAGE.deb]      as root; needs debootstrap and curl, and dpkg-dev without a package
#
# The archive is an OCI image layout:
#
#   docker load -i dist/mgw_*_oci.tar
#   skopeo copy oci-archive:dist/mgw_0.1.0_amd64_oci.tar docker://registry.example.com/mgw:0.1.0
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "== $*"; }
fail() { printf '%s\n' "tools/oci_image.sh: $*" >&2; exit 1; }

work=$(mktemp -d)
root=$work/root
started=()
finish() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    for mounted in "$root/proc" "$work/trial/proc"; do
        if mountpoint -q "$mounted"; then umount "$mounted"; fi
    done
    rm -rf "$work"
}
trap finish EXIT

package=${1:-}
if [ -z "$package" ]; then
    say "build the package"
    dpkg-buildpackage -us -uc -b >"$work/build.log" 2>&1 || { tail -30 "$work/build.log"; fail "the build failed"; }
    package=$(sed -n "s/.*building package 'mgw' in '\(.*\)'\.$/\1/p" "$work/build.log")
fi
version=$(dpkg-deb -f "$package" Version)
architecture=$(dpkg-deb -f "$package" Architecture)
# The time of the newest change of the program, not of today.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(dpkg-deb -c "$package" | awk '{print $4, $5}' | sort | tail -1 | xargs -I@ date -u -d @ +%s)}
export SOURCE_DATE_EPOCH

say "make a clean Debian 12"
debootstrap --variant=minbase --include=adduser,ca-certificates,python3 bookworm "$root" >"$work/debootstrap.log" 2>&1 ||
    { tail "$work/debootstrap.log"; fail "debootstrap failed"; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" "$@"; }
mount -t proc proc "$root/proc"

say "install $(basename "$package")"
inside groupadd --gid 65532 mgw
inside useradd --uid 65532 --gid 65532 --no-create-home --home-dir /var/lib/mgw --shell /usr/sbin/nologin mgw
cp "$package" "$root/tmp/mgw.deb"
inside apt-get install -y --no-install-recommends /tmp/mgw.deb >"$work/apt.log" 2>&1 || { tail "$work/apt.log"; fail "the installation failed"; }
umount "$root/proc"

say "leave out what no container needs"
rm -rf "$root"/tmp/* "$root"/var/lib/apt/lists/* "$root"/var/cache/{apt,debconf,ldconfig}/* "$root"/var/log/{apt,dpkg.log,bootstrap.log,alternatives.log} \
    "$root"/usr/share/{locale,man,info,lintian}/* "$root"/etc/{machine-id,hostname,resolv.conf} "$root"/etc/*- "$root"/var/lib/dpkg/*-old
# Licenses stay.
find "$root/usr/share/doc" -mindepth 1 ! -name copyright ! -type d -delete
find "$root/usr/share/doc" -mindepth 1 -type d -empty -delete

say "write the archive"
mkdir -p dist
archive=dist/mgw_${version//\~/.}_${architecture}_oci.tar
python3 -m tools.oci_image "$root" "$archive" --version "${version//\~/.}" --architecture "$architecture"

say "try it: unpack the archive, and run it as its configuration says"
python3 - "$archive" "$work/layout" "$work/trial" <<'PYTHON'
import json, sys, tarfile
from pathlib import Path
archive, layout, trial = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
tarfile.open(archive).extractall(layout)
blob = lambda descriptor: layout / "blobs" / descriptor["digest"].replace(":", "/")
[entry] = json.loads((layout / "index.json").read_text())["manifests"]
manifest = json.loads(blob(entry).read_text())
for layer in manifest["layers"]:
    tarfile.open(blob(layer)).extractall(trial, numeric_owner=True)
config = json.loads(blob(manifest["config"]).read_text())["config"]
Path(layout, "user").write_text(config["User"])
Path(layout, "env").write_text("\n".join(config["Env"]))
Path(layout, "command").write_text("\n".join(config["Entrypoint"]))
Path(layout, "cmd").write_text("\n".join(config["Cmd"]))
PYTHON
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
upstream=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mount -t proc proc "$work/trial/proc"
# What every container has.
for device in null:3 zero:5 random:8 urandom:9; do mknod -m 666 "$work/trial/dev/${device%:*}" c 1 "${device#*:}"; done
mapfile -t environment <"$work/layout/env"
mapfile -t entrypoint <"$work/layout/command"
mapfile -t arguments <"$work/layout/cmd"
user=$(cat "$work/layout/user")
contained() { # as the image says; what the image keeps outside of its volume cannot be written by this user
    exec chroot "$work/trial" setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups --no-new-privs \
        --bounding-set=-all --inh-caps=-all env -i "${environment[@]}" GATEWAY_LISTEN="127.0.0.1:$port" "${entrypoint[@]}" "$@"
}
cat >"$work/trial/etc/mgw.yaml" <<YAML
providers:
  sim: {kind: openai, base_url: "http://127.0.0.1:$upstream/v1", api_key: sk-simulated}
defaults: {openai_dialect: sim}
workers: 2
YAML
chmod 0644 "$work/trial/etc/mgw.yaml"
(contained --version)
(contained sim --listen "127.0.0.1:$upstream") >"$work/sim.log" 2>&1 &
started+=($!)
(contained "${arguments[@]}") >"$work/gateway.log" 2>&1 &
gateway=$!
started+=("$gateway")
for _ in $(seq 300); do
    if grep -q 'mgw serves' "$work/gateway.log" && grep -q "$upstream" "$work/sim.log"; then break; fi
    sleep 0.1
done
curl -sS --fail-with-body --max-time 20 "http://127.0.0.1:$port/v1/chat/completions" -H 'content-type: application/json' \
    -d '{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}]}' | tail -c 200 || { tail "$work/gateway.log"; fail "no answer"; }
echo
say "its user: $(ps -o uid= -p "$gateway"), memory in KiB: $(ps -o rss= -p "$gateway")"
serving=$(curl -sS --max-time 20 "http://127.0.0.1:$port/metrics" | grep -cE '^mgw_worker_open_fds|^mgw_workers\{state="serving"\} 2.0') || true
[ "$serving" = 3 ] || { tail "$work/gateway.log"; fail "not both workers serve"; }
say "its workers: 2"
kill -TERM "$gateway"
wait "$gateway" && say "it stopped on SIGTERM with exit code 0"
say "unpacked: $(du -sm --exclude=proc "$work/trial" | cut -f1) MiB"
