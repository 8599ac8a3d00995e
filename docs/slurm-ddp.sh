#!/usr/bin/env bash
# One training by several processes of a Slurm cluster, one for each task (docs/training.md, "Several processes"):
#
#   sbatch --nodes=2 --ntasks-per-node=4 docs/slurm-ddp.sh train -B 8 -T 1024 --epochs 1 --out training
#   sbatch --nodes=2 --ntasks-per-node=4 docs/slurm-ddp.sh train --resume --out training     # after a stop or a lost rank
#
# The arguments are those of `ladder`. All nodes must see the program and the folder. LADDER changes the default below.
# Slurm sends SIGTERM two minutes before the time is over: all ranks finish the step and save a checkpoint. If a task is
# lost, the others end, too. On nodes without GPUs remove the line --gpus-per-task, and name --cpus-per-task.
#SBATCH --job-name=ladder
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --signal=TERM@120
set -euo pipefail

export LADDER=${LADDER:-build/release/ladder}
# Not `scontrol | head`: head may end before scontrol has written all names, and pipefail would then end the job.
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
MASTER_ADDR=${nodes%%$'\n'*} # the first node
MASTER_PORT=$((20000 + SLURM_JOB_ID % 12000)) # another one for each job, below those that Linux gives out by itself
export MASTER_ADDR MASTER_PORT

# shellcheck disable=SC2016 # each task has its own SLURM_PROCID
exec srun --kill-on-bad-exit=1 bash -c '
  export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID LOCAL_WORLD_SIZE=${SLURM_NTASKS_PER_NODE:-1}
  exec "$LADDER" "$@"' ladder "$@"
