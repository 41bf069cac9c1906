#!/bin/bash
#SBATCH --job-name=resnet50
#SBATCH --account=vision
#SBATCH --partition=gpu
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:1
#SBATCH --mem=2G
#SBATCH --time=02:00:00
#SBATCH --output=%x-%j.log
#SBATCH --mail-type=BEGIN,END,FAIL
#SBATCH --mail-user=somebody@example.org

# A module system that is not everywhere.
command -v module >/dev/null 2>&1 && module purge && module load cuda/12.1

set -euo pipefail
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK

echo "Job $SLURM_JOB_ID ($SLURM_JOB_NAME) on $SLURM_JOB_NODELIST"
echo "GPUs: $CUDA_VISIBLE_DEVICES ($SLURM_GPUS_ON_NODE)"
echo "threads: $OMP_NUM_THREADS, memory: $SLURM_MEM_PER_NODE"
cd "$SLURM_SUBMIT_DIR"
srun python3 -c 'import os; print("rank", os.environ["SLURM_PROCID"], "of", os.environ["SLURM_NTASKS"])'
