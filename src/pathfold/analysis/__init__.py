"""The analysis of results, and of models before there are any: checks, comparisons, predictions, pictures, a report."""
