"""Pictures of results: paths, marginals, predictions, checks. Each function returns a Matplotlib figure."""
