#!/usr/bin/env bash
# One process of flock(1), spoken to as worker.mjs is. Its "new" is `flock LOCK true`, as scripts
# use it; "again" takes and drops the lock on a descriptor that the shell keeps open.
now() { local at=${EPOCHREALTIME/[.,]/}; echo "${at%???}.${at: -3}"; }
once() {
  case $1 in
    new) flock -n "$2" true ;;
    again) flock -n 9 && flock -u 9 ;;
    refused) ! flock -n "$2" true ;;
    refused-again) ! flock -n 9 ;;
  esac
}
echo '"ready"'
while read -r command one two three four; do
  case $command in
    batch)
      exec 9>>"$three"
      took=() end=$((${EPOCHREALTIME/[.,]/} + ${two%.*} * 1000))
      while before=${EPOCHREALTIME/[.,]/}; ((before < end || ${#took[@]} < 1)); do
        once "$one" "$three" || { echo "flock(1): $one failed" >&2; exit 1; }
        took+=($((${EPOCHREALTIME/[.,]/} - before)))
      done
      (IFS=,; echo "[${took[*]}]")
      ;;
    acquire) exec 9>>"$one"; flock 9; now ;;
    release) now; flock -u 9 ;;
    count)
      exec 9>>"$one"
      times=0
      while at=$(now); ((${at%.*} < ${three%.*})); do sleep 0.001; done
      while at=${EPOCHREALTIME/[.,]/}; ((at < ${four%.*} * 1000)); do
        flock 9
        ((${EPOCHREALTIME/[.,]/} < ${four%.*} * 1000)) || { flock -u 9; break; } # it came too late to count
        read -r value <"$two"
        echo $((value + 1)) >"$two"
        flock -u 9
        ((++times))
      done
      echo "{\"times\":$times,\"failures\":0}"
      ;;
  esac
done
