#!/usr/bin/env python3
#SBATCH --job-name=python-script
#SBATCH --cpus-per-task=2
#SBATCH --time=0-1
"""Slurm does not mind which language a script is in."""

import os
import sys

print("python", sys.version_info.major, "args", sys.argv[1:])
print("cpus", os.environ["SLURM_CPUS_PER_TASK"])
