#!/usr/bin/env bash
# Runs every fuzz program of a build folder for its share of the time, as many together as there are cores.
#   tools/fuzz.sh BUILD_DIR SECONDS
# A program may hold 512 MB and an input may take 10 s (QUIRE_FUZZ_MB, QUIRE_FUZZ_SECONDS say otherwise): more is a find.
# Seeds: tests/fuzz/corpus/<program>/ (kept in the project), words to try beside them in <program>.dict. Finds go to
# BUILD_DIR/corpus/<program>/ and serve the next run; an input that breaks the program is left in BUILD_DIR/broken/. Each
# program counts as one test.
set -euo pipefail
build=$1 seconds=$2
root=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)

fuzz_one() {  # PROGRAM SECONDS
  local name=${1##*/} corpus=("$build/corpus/${1##*/}")
  local seeds=$root/tests/fuzz/corpus/$name words=()
  mkdir -p "${corpus[0]}" "$build/broken"
  [[ ! -d $seeds ]] || corpus+=("$seeds")
  [[ ! -f $seeds.dict ]] || words=("-dict=$seeds.dict")
  if "$1" -max_total_time="$2" -timeout="$most_s" -rss_limit_mb="$most_mb" \
    -malloc_limit_mb="$most_mb" -artifact_prefix="$build/broken/$name-" \
    -print_final_stats=1 "${words[@]}" "${corpus[@]}" > "$build/$name.log" 2>&1; then
    echo "ok    $name  $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$name.log") inputs in $2 s"
  else
    printf 'FAIL  %s\n%s\n' "$name" "$(tail -n 60 "$build/$name.log")"
  fi
}
export -f fuzz_one
most_mb=${QUIRE_FUZZ_MB:-512} most_s=${QUIRE_FUZZ_SECONDS:-10}
# What has been freed is kept for a while to catch its use; of the 512 MB that is a small part.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=32"
export build root most_mb most_s

programs=()
for source in "$root"/tests/fuzz/fuzz_*.cc; do
  [[ ! -f $source ]] || programs+=("$build/fuzzers/$(basename "$source" .cc)")
done
if ((!${#programs[@]})); then
  echo "0 passed, 0 failed, 0 skipped"
  exit 0
fi
share=$((seconds * $(nproc) / ${#programs[@]}))
results=$(printf '%s\0' "${programs[@]}" |
  xargs -0 -n 1 -P "$(nproc)" bash -c 'fuzz_one "$1" "$0"' "$((share < 1 ? 1 : share))")
echo "$results"
failed=$(grep -c '^FAIL ' <<< "$results" || true)
echo "$((${#programs[@]} - failed)) passed, $failed failed, 0 skipped"
((failed == 0))
