#!/usr/bin/env bash
# Every check that runs no test; each counts as one. A check whose tool is absent is skipped, and says so.
#   tools/lint.sh BUILD_DIR      a folder in which `quire` is built
set -euo pipefail
build=$(cd "$1" && pwd)
cd "${BASH_SOURCE[0]%/*}/.."
passed=0 failed=0 skipped=0

check() {  # NAME COMMAND…      exit code 77 means skipped; the last line that it printed then says why
  local name=$1 code=0 output
  shift
  output=$("$@" 2>&1) || code=$?
  case $code in
    0) ((++passed)) && echo "ok    $name: ${output##*$'\n'}" ;;
    77) ((++skipped)) && echo "skip  $name: ${output##*$'\n'}" ;;
    *) ((++failed)) && printf 'FAIL  %s\n%s\n' "$name" "$output" ;;
  esac
}

check_format() {
  command -v clang-format-19 > /dev/null || { echo "clang-format-19 is not installed" && return 77; }
  tools/format.sh --check && echo "every file is as clang-format writes it"
}

check layers tools/check_layers
check sizes tools/check_sizes
check names tools/check_names
check archs tools/check_archs
check kernels tools/check_kernels
check isa tools/check_isa.sh "$build"
check format check_format
check tidy tools/check_tidy "$build"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
