"""A cgroup per task, where the machine allows it: what it was given is all that it can use.

Two ways to the same end. Version 1 has a hierarchy per controller, and a task has a group in each; version 2
has one tree, of which the agent must have been given a part. Each controller is optional: what is missing is
only counted, not enforced, and `abilities` says so.
"""
