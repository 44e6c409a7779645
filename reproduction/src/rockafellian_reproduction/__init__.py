"""The tables of the paper, trained again and compared with the printed figures.

`cli` has the commands, `datasets` loads each data set by one call, `machine` describes the machine of a run.
"""
