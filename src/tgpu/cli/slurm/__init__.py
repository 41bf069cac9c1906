"""Slurm's commands: `sbatch`, `squeue`, `scancel`, `sinfo`, `sacct`, `srun` and `scontrol`."""
