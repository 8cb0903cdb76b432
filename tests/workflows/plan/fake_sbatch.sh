#!/bin/bash
# sbatch and scontrol of a test: an array's elements run here one behind the other. FAKE_SLURM is a folder: jobs.txt
# gets a line for every start, "signal-<shard>-<restart>" holds the signal that start is to get: KILL goes to kvc, others
# to the script. A job with --wrap waits for nothing, for what it depends on has run.
set -u
if [ "${1:-}" = requeue ]; then
  touch "$FAKE_SLURM/requeue-$2"
  exit 0
fi
array=0-0 wrap='' script=''
for word in "$@"; do
  case $word in
    --array=*) array=${word#--array=} ;;
    --export=ALL,*) export "${word#--export=ALL,}" ;;
    --wrap=*) wrap=${word#--wrap=} ;;
    --*) ;;
    *) script=$word ;;
  esac
done
job=$(($(cat "$FAKE_SLURM/last" 2>/dev/null || echo 100) + 1))
echo "$job" >"$FAKE_SLURM/last"
echo "$job"
if [ -n "$wrap" ]; then
  echo "wrap $*" >>"$FAKE_SLURM/jobs.txt"
  bash -c "$wrap" >"$FAKE_SLURM/wrap.log" 2>&1
  echo "$?" >"$FAKE_SLURM/wrap.code"
  exit 0
fi

disturb() { # the script's process, the signal: once kvc has begun, and long before it has ended
  local state=$FAKE_SLURM/../grid/shard-$shard.json
  rm -f "$state"
  (
    exec >/dev/null 2>&1
    for _ in $(seq 600); do
      grep -q running "$state" && break
      sleep 0.05
    done
    sleep 0.3
    if [ "$2" = KILL ]; then pkill -KILL -P "$1"; else kill "-$2" "$1"; fi
  ) &
}

last=${array#*-}
for ((i = 0; i <= ${last%%%*}; ++i)); do
  shard=$((i + KVC_SHARD_OFFSET)) restart=0
  while true; do
    SLURM_ARRAY_JOB_ID=$job SLURM_ARRAY_TASK_ID=$i SLURM_RESTART_COUNT=$restart bash "$script" >/dev/null 2>&1 &
    pid=$!
    signal=$FAKE_SLURM/signal-$shard-$restart
    [ -e "$signal" ] && disturb "$pid" "$(cat "$signal")"
    wait "$pid"
    echo "shard $shard restart $restart code $?" >>"$FAKE_SLURM/jobs.txt"
    [ -e "$FAKE_SLURM/requeue-${job}_$i" ] || break
    rm "$FAKE_SLURM/requeue-${job}_$i"
    restart=$((restart + 1))
  done
done
