"""A trained model on new rows: the data as they are, with what the network says beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from rockafellian.auditing.commands.run import open_run
from rockafellian.auditing.data.labels import JOINT
from rockafellian.auditing.data.reading import read
from rockafellian.auditing.data.writing import check_free, write_table
from rockafellian.auditing.model.classifier import Model


def predict(folder: Path, data: Path, out: Path, *, force: bool = False) -> int:
    """Write the rows with their predicted label, its probability, and that of every class; how many rows they are."""
    check_free(out, force)
    described = open_run(folder)
    model, source = Model.load(folder / "model"), read(data, labelled=False)
    said = model.probabilities(source, progress="auto")
    classes, sure = model.decided(said)
    names = np.array(model.classes, dtype=object)
    joint = described["settings"]["separator"] or JOINT
    label = [joint.join(names[row]) for row in classes] if model.several else names[classes].tolist()
    added = {"predicted_label": pa.array(label), "predicted_probability": pa.array(sure)}
    added |= {f"probability_{name}": pa.array(said[:, i]) for i, name in enumerate(model.classes)}
    table = source.table
    for name, column in added.items():
        if name in table.column_names:
            raise ValueError(f"need data without a column {name!r}, as that is what is added; rename it")
        table = table.append_column(name, column)
    write_table(out, table, source.delimiter)
    return len(source)
