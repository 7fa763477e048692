#!/usr/bin/env bash
# clang-format over every C++ file. With --check nothing is written: files that would change are named, exit code 1.
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."
case ${1:-} in
  '' | --check) ;;
  *)
    echo "usage: tools/format.sh [--check]" >&2
    exit 2
    ;;
esac
write=(-i)
[[ ${1:-} != --check ]] || write=(--dry-run -Werror --ferror-limit=1)
find src tests $([[ -d bench ]] && echo bench) -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' | sort | tr '\n' '\0' |
  xargs -0 -n 16 -P "$(nproc)" clang-format-19 "${write[@]}"
