#!/bin/bash
# slurm_cluster.sh start FOLDER PORT: slurmctld and two slurmd of this host, n1 and n2, without munge or root's services,
# all files in FOLDER; slurm_cluster.sh lose FOLDER n2 ends a node without a word, stop FOLDER ends them all and returns
# when they have ended.
# FOLDER/slurm.conf is for SLURM_CONF.
set -eu
folder=$2

start_node() {
  slurmd-wlm -D -N "$1" -f "$folder/slurm.conf" -d /usr/sbin/slurmstepd-wlm >"$folder/$1.out" 2>&1 &
  echo $! >"$folder/$1.process"
}

case $1 in
  start)
    port=$3
    mkdir -p "$folder/state" "$folder/n1" "$folder/n2"
    cat >"$folder/slurm.conf" <<END
ClusterName=kvc
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$port
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/%n
SlurmctldPidFile=$folder/ctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmctldLogFile=$folder/ctld.log
SlurmdLogFile=$folder/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=5
MaxArraySize=5
SchedulerParameters=bf_interval=2,sched_interval=2
NodeName=n1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=1 RealMemory=1000 Feature=a100
NodeName=n2 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=1 RealMemory=1000 Feature=h100
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=60 State=UP
END
    slurmctld-wlm -D -f "$folder/slurm.conf" >"$folder/ctld.out" 2>&1 &
    echo $! >"$folder/ctld.process"
    start_node n1
    start_node n2
    ;;
  lose) # a node with all that runs on it, as if its power were gone
    left=()
    for _ in $(seq 40); do # a job may be about to start
      for process in /proc/[0-9]*; do
        grep -qz "^SLURMD_NODENAME=$3\$" "$process/environ" && grep -qz "^SLURM_CONF=$folder/" "$process/environ" &&
          left+=("${process#/proc/}")
      done 2>/dev/null
      [ "${#left[@]}" -gt 0 ] && break
      sleep 0.25
    done
    kill -KILL "$(cat "$folder/$3.process")"
    for process in "${left[@]}"; do # first who would tell the controller that they have ended
      parent=$(awk '/^PPid:/ {print $2}' "/proc/$process/status" || true)
      if grep -q slurmstepd "/proc/$parent/comm"; then kill -KILL "$parent"; fi
    done 2>/dev/null
    if [ "${#left[@]}" -gt 0 ]; then kill -KILL "${left[@]}" || true; fi
    ;;
  stop)
    for name in n1 n2 ctld; do
      if [ ! -e "$folder/$name.process" ]; then continue; fi
      process=$(cat "$folder/$name.process")
      kill "$process" || continue
      timeout 30 tail --pid="$process" -f /dev/null || kill -KILL "$process" || true
    done
    ;;
esac
