# Sourced by ./dev and .ci/run: runs commands as named stages, each timed against a budget in minutes, and adds up the
# "N passed, N failed, N skipped" with which each ends. A stage over its budget is said so; one that takes twice its
# budget is ended and has failed.
stages_passed=0 stages_failed=0 stages_skipped=0 stages_table=()

stage() {  # NAME BUDGET_MINUTES COMMAND…
  local name=$1 budget=$2 log code=0 start=$SECONDS line
  shift 2
  log=$(mktemp)
  echo "==== $name"
  timeout --kill-after=30 $((budget * 2))m "$@" < /dev/null 2>&1 | tee "$log" || code=$?
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1 || true)
  rm -f "$log"
  local numbers
  read -ra numbers <<< "${line//[!0-9 ]/}"
  local failed=${numbers[1]:-0}
  [[ -n $line ]] && ((code == 0 || failed > 0)) || failed=$((failed > 0 ? failed : 1))  # it broke before it counted
  ((stages_passed += ${numbers[0]:-0}, stages_failed += failed, stages_skipped += ${numbers[2]:-0})) || true
  note_stage "$name" "$budget" "$((SECONDS - start))" "$failed"
}

note_stage() {  # NAME BUDGET_MINUTES SECONDS FAILED
  local remark=
  (($4 == 0)) || remark="  failed"
  (($3 <= $2 * 60)) || remark+="  OVER BUDGET"
  stages_table+=("$(printf '%-10s %4d min %02d s  of %3d min%s' "$1" $(($3 / 60)) $(($3 % 60)) "$2" "$remark")")
  echo "==== ${stages_table[-1]}"
}

end_stages() {
  echo "==== all"
  printf '%s\n' "${stages_table[@]}"
  echo "$stages_passed passed, $stages_failed failed, $stages_skipped skipped"
  ((stages_failed == 0))
}
