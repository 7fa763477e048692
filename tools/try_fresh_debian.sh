#!/usr/bin/env bash
# The trial of a new user: a bare Debian 12, a clone, ./dev serve (the page, one answer), ./dev test. Run as root.
#   tools/try_fresh_debian.sh DIR [PROJECT]
# DIR becomes the root of that Debian (made with debootstrap when it is empty); PROJECT is what to clone, this one by
# default. Nothing but the clone is put in, so there is no model and no test data: what is skipped without them shows.
# On the outside: QUIRE_SHARED=DIR adds that folder beside the clone, for a trial with data. TRIAL_STEPS="serve" leaves the
# tests out. TRIAL_CACHE=DIR keeps Debian's packages and the compiler's results for the next trial: the times then say
# nothing of a first one. PIP_CERT=FILE counts inside as well.
set -euo pipefail
dir=${1:?usage: tools/try_fresh_debian.sh DIR [PROJECT]}
project=$(cd "${2:-${BASH_SOURCE[0]%/*}/..}" && pwd)

cache=${TRIAL_CACHE:-}

if [[ ! -e $dir/etc/apt/sources.list ]]; then  # what debootstrap writes last
  # dpkg waits for the disk after every file unless it is told not to: on a busy machine an hour instead of a minute.
  mkdir -p "$dir/etc/dpkg/dpkg.cfg.d" ${cache:+"$cache/packages"}
  echo force-unsafe-io > "$dir/etc/dpkg/dpkg.cfg.d/trial"
  debootstrap --variant=minbase ${cache:+--cache-dir="$(realpath "$cache/packages")"} bookworm "$dir"
fi
dir=$(cd "$dir" && pwd)
rm -rf "$dir/home/user/quire"
mkdir -p "$dir/home/user"
git clone --quiet "$project" "$dir/home/user/quire"
if [[ -n ${QUIRE_SHARED:-} ]]; then
  rm -rf "$dir/home/user/shared"
  cp -r "$QUIRE_SHARED" "$dir/home/user/shared"
fi
cp /etc/resolv.conf "$dir/etc/resolv.conf"
echo "127.0.0.1 localhost" > "$dir/etc/hosts"  # which whoever installs a Debian writes, and debootstrap does not
if [[ -n ${PIP_CERT:-} ]]; then cp "$PIP_CERT" "$dir/etc/pip.crt"; fi

mounted=()
unmount() { for place in "${mounted[@]}"; do umount -l "$place" || true; done; }
trap unmount EXIT
for place in proc sys dev; do
  mkdir -p "$dir/$place"
  mount --rbind "/$place" "$dir/$place" && mount --make-rslave "$dir/$place"
  mounted+=("$dir/$place")
done
if [[ -n $cache ]]; then
  mkdir -p "$cache/ccache" "$cache/apt" "$dir/root/.cache/ccache"
  mount --bind "$cache/ccache" "$dir/root/.cache/ccache" && mounted+=("$dir/root/.cache/ccache")
  mount --bind "$cache/apt" "$dir/var/cache/apt/archives" && mounted+=("$dir/var/cache/apt/archives")
fi

inside() {  # a login of that Debian: none of the environment outside
  chroot "$dir" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM=dumb ${PIP_CERT:+PIP_CERT=/etc/pip.crt} \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /bin/bash -c "cd /home/user/quire && $1"
}

# Starts ./dev serve, waits for its line, looks at the page, asks once, and ends it. With bash alone: there is no curl yet.
trial='
ask() {  # METHOD PATH BODY
  exec 3<> /dev/tcp/127.0.0.1/18080
  printf "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" \
    "$1" "$2" "${#3}" "$3" >&3
  cat <&3
  exec 3>&-
}
serve_once() {
  local begin=$(date +%s%N) line page
  coproc server { exec ./dev serve --port 18080; }
  local pid=$server_PID
  read -r line <&"${server[0]}" || { echo "the server did not start"; return 1; }
  echo "TRIAL $1: $line, after $((($(date +%s%N) - begin) / 1000000)) ms"
  page=$(ask GET / "")
  grep -o "HTTP/1.1 200\|<title>.*</title>" <<< "$page"
  ask POST /v1/chat/completions "{\"messages\": [{\"role\": \"user\", \"content\": \"Name the capital of France.\"}],
    \"temperature\": 0, \"max_tokens\": 24}" | tail -1
  echo
  kill -TERM "$pid" && wait "$pid"
}
'
for step in ${TRIAL_STEPS:-serve test}; do
  if [[ $step == serve ]]; then
    inside "$trial serve_once 'first start'"
    inside "$trial serve_once 'second start'"
  else
    inside "./dev $step"
  fi
done
