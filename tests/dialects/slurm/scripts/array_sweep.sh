#!/bin/bash
#SBATCH -J sweep
#SBATCH --array=1-4%2
#SBATCH --time=10
#SBATCH --cpus-per-task=1
#SBATCH -o sweep_%A_%a.out
#SBATCH -e sweep_%A_%a.err

LINE=$(sed -n "${SLURM_ARRAY_TASK_ID}p" parameters.txt)
set -- $LINE
echo "task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT in $SLURM_ARRAY_JOB_ID: lr=$1 batch=$2"
echo "warnings of $SLURM_ARRAY_TASK_ID" >&2
