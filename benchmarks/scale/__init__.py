"""How the cost of an effective draw grows with data, model and chains: `python -m benchmarks.scale --help`."""
