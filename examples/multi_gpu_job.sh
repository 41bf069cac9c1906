#!/bin/sh
# Submit with: tgpu submit --gpus 2 --name multi examples/multi_gpu_job.sh
# Starts one worker per GPU that tgpu has given to this job, and waits for all of them.
echo "job ${TGPU_JOB_ID:-?} has the GPUs: ${CUDA_VISIBLE_DEVICES:-none}"
workers=""
for gpu in $(echo "${CUDA_VISIBLE_DEVICES:-}" | tr ',' ' '); do
    (
        export CUDA_VISIBLE_DEVICES="$gpu"
        for step in 1 2 3; do
            echo "GPU $gpu: step $step of 3"
            sleep 1
        done
    ) &
    workers="$workers $!"
done
status=0
for worker in $workers; do
    wait "$worker" || status=1
done
exit $status
