#!/bin/bash
#SBATCH --job-name=checkpointed
#SBATCH --time=0:20
#SBATCH --signal=B:USR1@18
#SBATCH --requeue
#SBATCH --open-mode=append

requeue() {
    echo "warned, saving"
    touch saved
    scontrol requeue "$SLURM_JOB_ID"
}
trap requeue USR1

echo "start number ${SLURM_RESTART_COUNT:-0}"
if [ -e saved ]; then
    echo "went on from what was saved"
    exit 0
fi
sleep 60 &
wait
wait
