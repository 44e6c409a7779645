"""The command `rockafellian`: options in, one line of error out; the work is done elsewhere."""
