"""Speed and memory beside what you would use instead: `python -m benchmarks --help`."""
