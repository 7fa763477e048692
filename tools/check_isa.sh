#!/usr/bin/env bash
# Proves on a build folder that wider instructions cannot leak into code that every CPU runs.
#   tools/check_isa.sh BUILD_DIR
# Common objects hold no instruction in VEX or EVEX form (AVX and later, BMI, FMA). Objects made for an instruction set
# (their name ends in _scalar, _avx2, _avx512 or _amx, or they lie in a folder of that name) export only kernel tables, hold
# no weak symbol (the linker might choose that copy for common code), and run nothing before main. Encoders are templates
# that have the lanes of their set among their arguments: they may be weak where no other object has one of that name. So may
# the numbers of quant/grids.h: they are no code, and the same whichever copy the linker keeps.
set -euo pipefail

build=${1:?usage: tools/check_isa.sh BUILD_DIR}
isa_object='(_|/)(scalar|avx2|avx512[a-z0-9_]*|amx)(/[^/]*)?\.cc\.o$|/isa/(scalar|avx2|avx512[a-z0-9_]*|amx)/'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Mnemonics in VEX or EVEX form: v…, masks k…, BMI1/2. tzcnt is left out: on an old CPU it runs as bsf, which is how
# the compiler uses it.
wide='[[:space:]](v[a-z0-9]+[[:space:]]+[^;]*%[xyz]mm|vzero(upper|all)|k(mov|or|and|andn|xor|xnor|not|test|ortest|add|unpck|shiftl|shiftr)[a-z]*[[:space:]]+.*%k[0-7]|(andn|bextr|blsi|blsmsk|blsr|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|lzcnt)[lq]?[[:space:]])'

check_common() {  # object…
  local object found
  for object in "$@"; do
    found=$(objdump -d --no-show-raw-insn "$object" | grep -E -m 3 "$wide" || true)
    [[ -z $found ]] || printf '%s: instructions beyond the base:\n%s\n' "$object" "$found"
  done
}

check_isa() {  # object…
  local object
  for object in "$@"; do
    nm --defined-only -C "$object" | awk -v object="$object" '
      $2 ~ /^[WwVvu]$/ && $3 !~ /^(DW\.ref\.|quire::grids::)/ && object !~ /\/encoders_[a-z0-9_]+\.cc\.o$/ { $1 = ""; print object ": weak symbol" $0 }
      $2 ~ /^[A-Z]$/ && $2 !~ /^[WV]$/ { n++; if ($0 !~ /kernels_|encoders_|table/) { $1 = ""; print object ": exports" $0 } }
      END { if (!n) print object ": exports nothing" }'
    if objdump -h "$object" | grep -q '\.init_array\|\.ctors'; then
      echo "$object: runs code before main"
    fi
  done
}

check_encoders() {  # reads objects; those of every program in "$work/all"
  local object
  while read -r object; do
    nm --defined-only "$object" | awk '$2 ~ /^[Ww]$/ { print $3 }' | sort > "$work/own"
    grep -vxF "$object" "$work/all" | xargs -d '\n' nm --defined-only | awk '$2 ~ /^[WwTt]$/ { print $3 }' | sort -u > "$work/others"
    comm -12 "$work/own" "$work/others" | c++filt | sed "s|^|$object: another object has it too: |"
  done
}
export -f check_common check_isa
export wide

find "$build/CMakeFiles" -name '*.cc.o' ! -name '*_test.cc.o' ! -name '*_bench.cc.o' | sort > "$work/all"
grep -E "$isa_object" "$work/all" > "$work/isa" || true
grep -vE "$isa_object" "$work/all" > "$work/common" || true
if [[ ! -s $work/isa || ! -s $work/common ]]; then
  echo "check_isa: $build holds $(wc -l < "$work/common") common objects and $(wc -l < "$work/isa") kernel objects:" \
    "build quire there first"
  exit 1
fi
parallel=(xargs -d '\n' -n 8 -P "$(nproc)" bash -c)
"${parallel[@]}" 'check_common "$@"' _ < "$work/common" > "$work/errors"
"${parallel[@]}" 'check_isa "$@"' _ < "$work/isa" >> "$work/errors"
{ grep '/encoders_' "$work/isa" || true; } | check_encoders >> "$work/errors"
cat "$work/errors"
echo "check_isa: $(wc -l < "$work/common") common objects, $(wc -l < "$work/isa") kernel objects," \
  "$(grep -c '^[^[:space:]]' "$work/errors" || true) findings"
[[ ! -s $work/errors ]]
