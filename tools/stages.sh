# Sourced by ./dev and .ci/run: runs commands as named stages, each timed against a budget in minutes, and adds up the
# "N passed, N failed, N skipped" with which each ends. A stage over its budget is said so; one that takes twice its
# budget is ended and has failed. What failed is printed once more at the end, since that is what is kept of a long log.
stages_passed=0 stages_failed=0 stages_skipped=0 stages_table=() stages_failures=()

stage() {  # NAME BUDGET_MINUTES COMMAND…
  local name=$1 budget=$2 log code=0 start=$SECONDS line
  shift 2
  log=$(mktemp)
  echo "==== $name"
  timeout --kill-after=30 $((budget * 2))m "$@" < /dev/null 2>&1 | tee "$log" || code=$?
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1 || true)
  local numbers
  read -ra numbers <<< "${line//[!0-9 ]/}"
  local failed=${numbers[1]:-0}
  [[ -n $line ]] && ((code == 0 || failed > 0)) || failed=$((failed > 0 ? failed : 1))  # it broke before it counted
  ((stages_passed += ${numbers[0]:-0}, stages_failed += failed, stages_skipped += ${numbers[2]:-0})) || true
  ((failed == 0)) || stages_failures+=("==== failed in $name"$'\n'"$(failures_in "$log")")
  rm -f "$log"
  note_stage "$name" "$budget" "$((SECONDS - start))" "$failed"
}

# Where a log says what failed, and some of what it says there; else how it ends.
failures_in() {  # LOG
  local said
  said=$(grep -E -A 20 '^(FAIL|----|failed:) ' "$1") || said=$(tail -n 20 "$1")
  head -n 80 <<< "$said"
}

note_stage() {  # NAME BUDGET_MINUTES SECONDS FAILED
  local remark=
  (($4 == 0)) || remark="  failed"
  (($3 <= $2 * 60)) || remark+="  OVER BUDGET"
  stages_table+=("$(printf '%-10s %4d min %02d s  of %3d min%s' "$1" $(($3 / 60)) $(($3 % 60)) "$2" "$remark")")
  echo "==== ${stages_table[-1]}"
}

end_stages() {
  ((${#stages_failures[@]} == 0)) || printf '%s\n' "${stages_failures[@]}"
  echo "==== all"
  printf '%s\n' "${stages_table[@]}"
  echo "$stages_passed passed, $stages_failed failed, $stages_skipped skipped"
  ((stages_failed == 0))
}
