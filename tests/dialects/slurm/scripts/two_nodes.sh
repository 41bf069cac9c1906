#!/bin/bash
#SBATCH --job-name=llm
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --time=00:10:00

nodes=( $( scontrol show hostnames "$SLURM_JOB_NODELIST" ) )
head_node=${nodes[0]}
head_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address | awk '{print $1}')
export MASTER_ADDR=$head_ip MASTER_PORT=29500

echo "script on $SLURMD_NODENAME, ${#nodes[@]} nodes, head ${head_ip:+known}"
srun bash -c 'echo "node $SLURM_NODEID is $SLURMD_NODENAME: rank $SLURM_PROCID of $SLURM_NTASKS, \
port $MASTER_PORT, gpus $CUDA_VISIBLE_DEVICES"'
srun bash -c 'exit $SLURM_PROCID' || echo "the second rank failed with $?"
