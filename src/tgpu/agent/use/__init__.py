"""What running tasks do with what they were given: looked at, kept beside their output, summed up at last."""
