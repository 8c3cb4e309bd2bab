"""Models of the literature, ready to use: each a function giving a DiffusionModel, with the values it is studied at."""
