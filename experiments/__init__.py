"""The experiments of the paper (section 7 and its supplement), and the same with our defaults: a module a figure."""
