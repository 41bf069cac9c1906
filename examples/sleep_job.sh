#!/bin/sh
# Submit with: tgpu submit --name nap examples/sleep_job.sh 10
# Counts the seconds, so that `tgpu logs -f` has something to show.
seconds=${1:-10}
for second in $(seq "$seconds"); do
    echo "second $second of $seconds"
    sleep 1
done
echo "rested"
