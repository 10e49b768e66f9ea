#!/usr/bin/env bash
# The same as waiter.mjs on flock(1), which blocks in the kernel: the other peer.
exec 9>>"$1"
now() { local seconds=${EPOCHREALTIME/,/.}; echo "${seconds/./}" | sed 's/...$/.&/'; }
echo '"ready"'
while read -r command; do
  case $command in
    acquire) flock 9; now ;;
    release) now; flock -u 9 ;;
  esac
done
