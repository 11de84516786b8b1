#!/usr/bin/env bash
# A real SLURM of one node, for tests: `one_node.sh start FOLDER`, then SLURM_CONF=FOLDER/slurm.conf; `one_node.sh stop FOLDER`.
# Needs root and Debian's slurm-wlm and munge. All its files lie in FOLDER, and nothing of the system's own SLURM is touched.
set -euo pipefail
order=${1:?start or stop} folder=$(realpath -m "${2:?a folder}")
port=${CORANET_SLURM_PORT:-16817}

start() {
    mkdir -p "$folder"/{state,spool}
    local host
    host=$(hostname -s)
    # It says that it has 16 cores and two GPUs, whatever it has, so that tasks can ask for them.
    echo "NodeName=$host Name=gpu Count=2 File=/dev/zero,/dev/null" >"$folder/gres.conf"
    cat >"$folder/slurm.conf" <<END
ClusterName=coranet
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket,cred_expire=5
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
SchedulerParameters=batch_sched_delay=0,sched_interval=2
KillWait=5
MinJobAge=20
NodeName=$host NodeAddr=127.0.0.1 CPUs=16 RealMemory=1000 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO MaxCPUsPerNode=2
PartitionName=gpu Nodes=ALL MaxTime=INFINITE State=UP OverSubscribe=NO
END
    dd if=/dev/urandom of="$folder/munge.key" bs=1024 count=1 status=none
    chmod 600 "$folder/munge.key"
    chown -R munge "$folder/munge.key"
    install -d -o munge -m 755 "$folder/munge"
    runuser -u munge -- /usr/sbin/munged --force --key-file="$folder/munge.key" --socket="$folder/munge/socket" \
        --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed"
    ln -sfn "$folder/munge/socket" "$folder/munge.socket"
    export SLURM_CONF="$folder/slurm.conf"
    /usr/sbin/slurmctld
    /usr/sbin/slurmd
    for _ in $(seq 60); do
        if sinfo --noheader --format %T 2>/dev/null | grep -q idle; then return; fi
        sleep 0.5
    done
    echo "The node did not come up: see $folder/slurmctld.log" >&2
    exit 1
}

stop() {
    local file
    for file in "$folder"/slurmd.pid "$folder"/slurmctld.pid "$folder"/munge/pid; do
        if [ -s "$file" ]; then kill "$(cat "$file")" 2>/dev/null || true; fi
    done
}

case $order in
start) start ;;
stop) stop ;;
*) echo "$order: neither start nor stop" >&2; exit 2 ;;
esac
