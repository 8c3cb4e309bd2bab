"""What can go wrong at the door, each error with a sentence that names the culprit and the mend."""


class PathfoldError(Exception):
    """Base class of every error pathfold raises on purpose."""


class ModelError(PathfoldError):
    """The model is not one pathfold can use: a wrong shape, an unknown parameter, a scheme that does not apply."""


class DataError(PathfoldError):
    """The observations cannot be used: times out of order, a wrong width, an infinite value."""


class InitialisationError(PathfoldError):
    """No starting point consistent with the data was found."""
