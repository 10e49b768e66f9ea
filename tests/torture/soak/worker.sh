# flock(1) among the others, in a loop of bash. Its job comes as arguments.
#
#   worker.sh ID SEED PATH PIPE COUNTER LIST SHARED-PERCENT
who=$1.$$
RANDOM=$2
path=$3 counter=$5 list=$6 shared=$7
exec 7>"$4"
echo "ready $who" >&7
while :; do
  # Also the pause; a time-out is a status above 128, the end of the input is 1.
  IFS= read -r -t "0.00$((1 + RANDOM % 9))" _
  [ $? -eq 1 ] && exit 0
  mode=exclusive
  [ $((RANDOM % 100)) -lt "$shared" ] && mode=shared
  exec 8>>"$path"
  flock "--$mode" 8 || { echo "wrong $who flock ended with $?" >&7; exit 1; }
  echo "enter $who $mode" >&7
  read -r before <"$counter"
  before=$((10#$before))
  if [ $mode = exclusive ]; then
    echo "$((before + 1)) $who" >>"$list"
    printf '%012d' $((before + 1)) 1<>"$counter" # one write, and no truncation before it
  else
    read -r after <"$counter"
    [ $((10#$after)) -eq "$before" ] || echo "wrong $who the number changed under a reader" >&7
  fi
  echo "leave $who" >&7
  exec 8>&-
done
