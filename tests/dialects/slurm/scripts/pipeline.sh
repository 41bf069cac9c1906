#!/bin/bash
#SBATCH -J pipeline -t 5 -n 1
set -e
first=$(sbatch --parsable -J prepare --wrap "echo prepared > prepared.txt")
second=$(sbatch --parsable -J fit --dependency=afterok:$first --wrap "cat prepared.txt && echo fitted > fitted.txt")
sbatch -J clean --dependency=afterany:$second --kill-on-invalid-dep=yes --wrap "rm prepared.txt"
echo "submitted $first $second"
