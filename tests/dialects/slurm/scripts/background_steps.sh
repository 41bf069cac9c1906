#!/bin/bash
#SBATCH --ntasks=2
#SBATCH --time=5
# More steps than CPUs: they take turns.
for i in 1 2 3 4; do
    srun --ntasks=1 --exclusive sh -c "echo begin $i; sleep 0.3; echo end $i" &
done
wait
echo all done
