#!/bin/sh
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=4
#SBATCH --mem-per-cpu=100M
#SBATCH --time=5:00
#SBATCH --exclusive
#SBATCH --hint=nomultithread

echo "tasks $SLURM_NTASKS on $SLURM_JOB_NUM_NODES node(s): $SLURM_TASKS_PER_NODE"
srun --label sh -c 'echo "rank $SLURM_PROCID local $SLURM_LOCALID of $SLURM_STEP_NUM_TASKS"'
