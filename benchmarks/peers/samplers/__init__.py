"""One module a sampler; `sampler.py` says what is in it."""
