#!/bin/bash -l
#SBATCH --export="ALL,EPOCHS=3,DATA='a,b'"
#SBATCH --nice=50
#SBATCH --comment="nightly run"
#SBATCH --chdir=elsewhere
#SBATCH --constraint=intel
#SBATCH --exclude=broken[1-3]
#SBATCH --begin=now
#SBATCH --licenses=matlab:1
#SBATCH --no-requeue
#SBATCH --tmp=100M

echo "epochs=$EPOCHS data=$DATA from=$FROM_CALLER in=$(basename "$PWD")"
echo "submitted from $(basename "$SLURM_SUBMIT_DIR")"
