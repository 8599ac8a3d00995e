#!/usr/bin/env bash
# One study on several machines of a Slurm cluster, each measuring its shard of the repeats:
#
#   sbatch docs/slurm-array.sh --ladder gpt2 -B 16 --repeats 8      # any flags of `ladder ablate`, the same for all
#   ladder merge studies/array/shard-* --out studies/array/whole   # when the jobs have ended
#   sbatch --array=3 docs/slurm-array.sh --ladder gpt2 ...          # a lost shard again: the same flags, then merge
#
# A job that Slurm requeues continues where it was. SHARDS, STUDY and LADDER change the defaults below; all nodes must see
# the folder.
#SBATCH --job-name=ladder
#SBATCH --array=1-4
#SBATCH --gres=gpu:1
#SBATCH --exclusive
#SBATCH --time=01:00:00
#SBATCH --requeue
set -euo pipefail

shards=${SHARDS:-4} # not SLURM_ARRAY_TASK_COUNT: that is 1 if one shard is measured again
study=${STUDY:-studies/array}
ladder=${LADDER:-build/release/ladder}

mkdir -p "$study"
exec "$ladder" ablate --shard "$SLURM_ARRAY_TASK_ID/$shards" --out "$study/shard-$SLURM_ARRAY_TASK_ID" --wait "$@"
