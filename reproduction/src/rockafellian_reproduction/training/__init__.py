"""Training: the data of a cell, one training, its record, and `rockafellian reproduce`."""
