"""`rockafellian predict`: new rows with their predicted labels and probabilities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from rockafellian.auditing.commands.run_folder import open_run
from rockafellian.auditing.data.labels import DEFAULT_SEPARATOR
from rockafellian.auditing.data.reading import read
from rockafellian.auditing.data.writing import check_writable, write_table
from rockafellian.auditing.model.classifier import Classifier


def predict(folder: Path, data: Path, out: Path, *, encoding: str | None = None, force: bool = False) -> int:
    """Write the rows with their predicted label and the probability of every class; return the number of rows."""
    check_writable(out, force, inputs=[data])
    run = open_run(folder)
    model, source = Classifier.load(run.model()), read(data, labeled=False, encoding=encoding)
    probabilities = model.probabilities(source, progress="auto")
    classes, probability = model.decide(probabilities)
    names = np.array(model.classes, dtype=object)
    separator = run.description.reading.separator or DEFAULT_SEPARATOR
    label = [separator.join(names[row]) for row in classes] if model.multilabel else names[classes].tolist()
    added = {"predicted_label": pa.array(label), "predicted_probability": pa.array(probability)}
    added |= {f"probability_{name}": pa.array(probabilities[:, i]) for i, name in enumerate(model.classes)}
    table = source.table
    for name, column in added.items():
        if name in table.column_names:
            raise ValueError(f"need data without a column {name!r}, which is added here; rename it")
        table = table.append_column(name, column)
    write_table(out, table, source.delimiter)
    return len(source)
