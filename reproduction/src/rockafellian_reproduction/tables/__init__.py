"""Tables 1 to 9 of the paper and its paragraph on tissue as data: cells, settings, printed figures, readings.

Table 5 comes from runs of Table 4, Table 6 is the kernel of Table 7 (`kernel.KERNEL`), 10 is the paragraph on tissue.
"""

from rockafellian_reproduction.tables.cifar10 import TABLE_1, TABLE_2
from rockafellian_reproduction.tables.mnist import TABLE_3, TABLE_4, TABLE_7
from rockafellian_reproduction.tables.readings import Variant
from rockafellian_reproduction.tables.recipes import Recipe
from rockafellian_reproduction.tables.table import SCALES, Cell, Scale, Table
from rockafellian_reproduction.tables.texts import TABLE_8, TABLE_9
from rockafellian_reproduction.tables.tissue import TABLE_10

__all__ = ["SCALES", "TABLES", "TRIAL", "Cell", "Recipe", "Scale", "Table", "Variant"]

TABLES = {table.number: table for table in (TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_7, TABLE_8, TABLE_9, TABLE_10)}
_DIGITS = Recipe(
    data="digits", network="text-head", epochs=12, every=3, learning_rate=0.1, spread="kept", tested_every=3
)
#: Not a table of the paper: takes seconds, on data that come with scikit-learn, to see that everything works.
TRIAL = Table(
    number=0,
    title="Digits of scikit-learn",
    axes={"method": ("ERM", "RRM"), "contamination": (0.4,)},
    scales={"paper": _DIGITS},
    answers="paper",
    measures="last",
    minutes={"paper": 0.1},
    readings=(),
)
