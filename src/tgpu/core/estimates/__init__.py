"""Expected starts of pending jobs: run times of similar tasks, and the queue simulated forward."""
