#!/bin/bash
#SBATCH -J ddp -N1 --ntasks-per-node=2 --gpus-per-task=1 -c 2 -t 0-00:10
# One process for each GPU, as Lightning and accelerate want them.
srun --kill-on-bad-exit=1 bash -c 'echo "rank=$SLURM_PROCID world=$SLURM_NTASKS gpu=$CUDA_VISIBLE_DEVICES"'
