#!/usr/bin/env bash
# Try the Debian package: install it on a clean Debian 12, run the service's command as the service's user, send
# requests, reload, upgrade, remove, purge, and show what is left.
#
#   tools/try_package.sh [PACKAGE.deb]      as root; needs debootstrap, dpkg-dev and curl
#
# Without a package it builds one.  Everything happens in a temporary folder and on loopback.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "== $*"; }
fail() { printf '%s\n' "tools/try_package.sh: $*" >&2; exit 1; }

work=$(mktemp -d)
root=$work/root
started=()
finish() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    mountpoint -q "$root/proc" && umount "$root/proc"
    rm -rf "$work"
}
trap finish EXIT

package=${1:-}
if [ -z "$package" ]; then
    say "build the package"
    dpkg-buildpackage -us -uc -b >"$work/build.log" 2>&1 || { tail -30 "$work/build.log"; fail "the build failed"; }
    package=$(sed -n "s/.*building package 'mgw' in '\(.*\)'\.$/\1/p" "$work/build.log")
fi
say "package: $(basename "$package"), $(stat -c %s "$package") bytes"

say "make a clean Debian 12"
debootstrap --variant=minbase --include=adduser,python3 bookworm "$root" >"$work/debootstrap.log" 2>&1 ||
    { tail "$work/debootstrap.log"; fail "debootstrap failed"; }
mount -t proc -o hidepid=invisible proc "$root/proc" # ProtectProc=invisible
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # nothing is started while packages are installed
chmod +x "$root/usr/sbin/policy-rc.d"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
files() {
    find "$root" -xdev \( -path "$root/proc" -o -path "$root/var/lib/dpkg" -o -path "$root/var/cache" -o -path "$root/var/lib/apt" \
        -o -path "$root/run" -o -name '*shadow-' -o -name group- -o -name passwd- -o -path "$root/var/log/apt" -o -path "$root/var/log/dpkg.log" -o -path "$root/tmp" \) -prune -o -printf '%P\n' | sort
    for list in passwd group shadow gshadow; do sed "s/^/$list: /; s/:[0-9]*:0:99999.*//" "$root/etc/$list"; done
}
install() { cp "$1" "$root/tmp/mgw.deb" && inside apt-get install -y --no-install-recommends /tmp/mgw.deb >"$work/apt.log" 2>&1 || { tail "$work/apt.log"; fail "the installation failed"; }; }
take_away() { inside apt-get "$1" -y mgw >"$work/apt.log" 2>&1 || { tail "$work/apt.log"; fail "apt-get $1 failed"; }; }
files >"$work/before"

say "install it"
install "$package"
inside stat -c '%A %U:%G %n' /etc/mgw.yaml /etc/default/mgw /var/lib/mgw /var/log/mgw
inside mgw --version
inside grep -qx 'workers: auto' /etc/mgw.yaml || fail "the service would use one core"
[ "$(inside stat -c '%a %U:%G' /etc/mgw.yaml)" = "640 root:mgw" ] || fail "/etc/mgw.yaml is open to others"
inside mgw check -c /etc/mgw.yaml >/dev/null || fail "the configuration as shipped is not valid"

say "configure it for a simulated provider"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
upstream=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$work/mgw.yaml" <<YAML
listen: "127.0.0.1:$port"
providers:
  sim: {kind: openai, base_url: "http://127.0.0.1:$upstream/v1", api_key_env: SIM_KEY}
defaults: {openai_dialect: sim}
hooks: {jsonl: {output: /var/log/mgw/usage.jsonl}, sqlite: {path: /var/lib/mgw/usage.sqlite}}
YAML
cat "$work/mgw.yaml" >"$root/etc/mgw.yaml"
echo 'SIM_KEY=sk-simulated' >>"$root/etc/default/mgw"

# As systemd starts it: the unit's command, user, environment and file mask, with no way to gain privileges.
unit=$root/lib/systemd/system/mgw.service
setting() { sed -n "s/^$1=//p" "$unit"; }
python3 - "$root/run/notify" "$work/told" <<'PYTHON' &
import os, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
with open(sys.argv[2], "ab", buffering=0) as told:
    while True:
        told.write(listener.recv(4096) + b"\n")
PYTHON
started+=($!)
gateway=
as_service() { # COMMAND: with the user, the privileges and the environment that the unit gives
    chroot "$root" setpriv --reuid=mgw --regid=mgw --init-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
        env -i PATH=/usr/bin:/bin RUNTIME_DIRECTORY=/run/mgw STATE_DIRECTORY=/var/lib/mgw LOGS_DIRECTORY=/var/log/mgw NOTIFY_SOCKET=/run/notify \
        WATCHDOG_USEC=30000000 SIM_KEY=sk-simulated "$@"
}
wait_for() { # PATTERN FILE
    for _ in $(seq 300); do
        grep -q "$1" "$2" 2>/dev/null && return
        sleep 0.1
    done
    tail -20 "$work/service.log"
    fail "no '$1' within 30 s"
}
start() {
    local words
    read -ra words <<<"$(setting ExecStart)"
    : >"$work/told"
    (umask "$(setting UMask)" && as_service sh -c 'echo $$ >/tmp/pid; exec "$@"' sh "${words[@]}") >>"$work/service.log" 2>&1 &
    started+=($!)
    wait_for READY=1 "$work/told"
    gateway=$(cat "$root/tmp/pid")
}
stop() {
    local processes
    processes=$(descendants "$gateway")
    kill -TERM "$gateway"
    for _ in $(seq 300); do
        kill -0 "$gateway" 2>/dev/null || { no_trace "$processes"; return 0; }
        sleep 0.1
    done
    fail "it did not stop within 30 s"
}
no_trace() { # PIDS: nothing is left of a service that has stopped
    local pid
    for pid in $1; do if kill -0 "$pid" 2>/dev/null; then fail "process $pid is left"; fi; done
    [ -z "$(find "$root/run/mgw" "$root/tmp" "$root/var/lib/mgw" -name 'mgw-hub-*')" ] || fail "the directory of a socket is left"
}
descendants() { # PID: of its fork server, and of that one's workers
    local child
    for child in $(ps -o pid= --ppid "$1"); do echo "$child" && descendants "$child"; done
}
metric() { curl -sS --max-time 20 "http://127.0.0.1:$port/metrics" | sed -n "s/^$1 //p"; }
worker() { descendants "$gateway" | while read -r pid; do if grep -qx "mgw-worker-$1" "/proc/$pid/comm" 2>/dev/null; then echo "$pid"; fi; done; }
wait_for_workers() { # COUNT
    for _ in $(seq 300); do
        [ "$(metric 'mgw_workers{state="serving"}')" != "$1.0" ] || return 0
        sleep 0.1
    done
    tail -20 "$work/service.log"
    fail "no $1 workers within 30 s"
}
ask() {
    curl -sS --fail-with-body --max-time 20 "http://127.0.0.1:$port/v1/chat/completions" -H 'content-type: application/json' \
        -d '{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}]}' | tail -c 300
    echo
}
chroot "$root" setpriv --reuid=nobody --regid=nogroup --clear-groups env -i PATH=/usr/bin:/bin \
    mgw sim --listen "127.0.0.1:$upstream" >"$work/sim.log" 2>&1 &
started+=($!)
wait_for "$upstream" "$work/sim.log"

inside sh -c 'mkdir /run/mgw && chown mgw:mgw /run/mgw' # RuntimeDirectory
say "start it: $(setting ExecStart) as $(inside stat -c %U /var/lib/mgw)"
start
ask
say "its user: $(ps -o uid= -p "$gateway"), memory in KiB: $(ps -o rss= -p "$gateway")"

say "reload it"
echo 'server_timing: true' >>"$root/etc/mgw.yaml"
kill -HUP "$gateway"
wait_for RELOADING=1 "$work/told"
wait_for "generation 2" "$work/service.log"
curl -sS -D - -o /dev/null "http://127.0.0.1:$port/v1/chat/completions" -H 'content-type: application/json' \
    -d '{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}]}' | grep -i server-timing

say "stop it, and start it with two workers"
stop
echo 'workers: 2' >>"$root/etc/mgw.yaml"
start
wait_for_workers 2
for _ in $(seq 20); do ask >/dev/null; done
say "workers that serve: $(metric 'mgw_workers{state="serving"}'), memory in KiB: $(descendants "$gateway" | xargs -n1 ps -o rss= -p | xargs)"
[ "$(metric 'mgw_worker_open_fds{worker="1"}')" ] || fail "it cannot see its own workers in /proc"
[ -n "$(find "$root/run/mgw" -name 'mgw-hub-*')" ] || fail "the socket of operators is not in the runtime directory"

say "kill one of them"
killed=$(worker 0)
[ "$(cat "/proc/$killed/oom_score_adj")" = 100 ] || fail "the kernel would not choose a worker first"
kill -KILL "$killed"
wait_for "worker 0 (pid .*) exited: SIGKILL" "$work/service.log"
for _ in $(seq 300); do
    replaced=$(worker 0)
    if [ -n "$replaced" ] && [ "$replaced" != "$killed" ]; then break; fi
    sleep 0.1
done
wait_for_workers 2
ask >/dev/null
say "in its place: $(cat "/proc/$replaced/comm"), workers replaced: $(metric mgw_worker_restarts_total)"

say "reload them"
sed -i 's/^server_timing: true/server_timing: false/' "$root/etc/mgw.yaml"
: >"$work/told"
kill -HUP "$gateway"
wait_for "STATUS=generation 2" "$work/told"
ask >/dev/null

say "rotate its logs, upgrade it, and start the new one"
dpkg-deb -R "$package" "$work/next"
sed -i 's/^Version: .*/&+next/' "$work/next/DEBIAN/control"
dpkg-deb --root-owner-group -b "$work/next" "$work/next.deb" >/dev/null
cp "$root/etc/mgw.yaml" "$work/kept.yaml"
stop
install "$work/next.deb"
cmp "$root/etc/mgw.yaml" "$work/kept.yaml" || fail "the upgrade changed the configuration"
say "now: $(inside dpkg-query -W -f '${Version}' mgw)"
start
wait_for_workers 2
ask
stop
say "usage events: $(wc -l <"$root/var/log/mgw/usage.jsonl") lines, and by the command line:"
as_service mgw usage -c /etc/mgw.yaml --by status

say "remove it: configuration and state stay"
take_away remove
for path in etc/mgw.yaml etc/default/mgw var/lib/mgw/usage.sqlite var/log/mgw/usage.jsonl; do
    [ -e "$root/$path" ] || fail "/$path is gone"
done
[ ! -e "$root/usr/lib/mgw" ] || { find "$root/usr/lib/mgw" | head; fail "something is left of the program"; }

say "purge it"
take_away purge
rm -f "$root/run/notify" "$root/tmp/pid" "$root/tmp/mgw.deb"
rmdir "$root/run/mgw" # systemd makes it, and takes it away
[ -z "$(ls -A "$root/tmp")" ] || { ls -A "$root/tmp"; fail "something is left in /tmp"; }
files >"$work/after"
if ! diff "$work/before" "$work/after"; then fail "something is left"; fi
say "what is left: nothing"
