#!/usr/bin/env bash
# The trial of a new user: a bare Debian 12, a clone, ./dev serve, curl, ./dev test. Run as root.
#   tools/try_fresh_debian.sh DIR [PROJECT]
# DIR becomes the root of that Debian (made with debootstrap when it is empty); PROJECT is what to clone, this one by
# default. Nothing but the clone is put in, so there is no model and no test data: what is skipped without them shows.
# QUIRE_SHARED=DIR on the outside adds that folder beside the clone, for a trial with data.
set -euo pipefail
dir=${1:?usage: tools/try_fresh_debian.sh DIR [PROJECT]}
project=$(cd "${2:-${BASH_SOURCE[0]%/*}/..}" && pwd)

if [[ ! -x $dir/bin/bash ]]; then
  debootstrap --variant=minbase bookworm "$dir"
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

mounted=()
unmount() { for place in "${mounted[@]}"; do umount -l "$place" || true; done; }
trap unmount EXIT
for place in proc sys dev; do
  mkdir -p "$dir/$place"
  mount --rbind "/$place" "$dir/$place" && mount --make-rslave "$dir/$place"
  mounted+=("$dir/$place")
done

inside() {  # a login of that Debian: none of the environment outside
  chroot "$dir" /usr/bin/env -i HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /bin/bash -c "cd /home/user/quire && $1"
}

# Starts ./dev serve on $port, waits for its line, asks it once over a stream, and ends it.
trial='
serve_once() {
  local begin=$(date +%s%N) line
  coproc server { exec ./dev serve --port 18080; }
  local pid=$server_PID
  read -r line <&"${server[0]}" || { echo "the server did not start"; return 1; }
  echo "TRIAL $1: $line, after $((($(date +%s%N) - begin) / 1000000)) ms"
  if command -v curl > /dev/null; then
    curl -sSN --fail http://127.0.0.1:18080/v1/completions \
      -d "{\"prompt\": \"Once upon a time\", \"max_tokens\": 16, \"stream\": true}"
  fi
  kill -TERM "$pid" && wait "$pid"
}
'
inside "$trial serve_once 'first start'"
inside "$trial serve_once 'second start'"
inside "./dev test"
inside "$trial serve_once 'start with curl'"
