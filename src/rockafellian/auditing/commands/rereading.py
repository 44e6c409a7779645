"""The data and the findings of a finished run, read again and compared with what the run read and wrote."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from rockafellian.auditing.commands.run_folder import FINDINGS, FRAME, FinishedRun
from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.features.kinds import Images
from rockafellian.label_issues import COLUMNS


def reread(run: FinishedRun, data: Path | None = None) -> Source:
    """Return the data of a run, from where they were or from `data`; raise an error if they have changed."""
    described = run.description
    if described.data is None and data is None:
        return read(run.path(FRAME))
    path = data or Path(str(described.data))
    source = read(path, encoding=described.reading.encoding)
    changed = source.checksum() != described.checksum
    if not changed and described.images is not None:
        images = Images(described.image_column)
        changed = images.checksum(images.content(source)) != described.images
    if changed:
        raise ValueError(f"need the data that {run.folder} was trained on, but {path} has changed since; restore it")
    return source


def read_findings(run: FinishedRun, source: Source) -> pa.Table:
    """Return the findings of a run, one line for each row of its data."""
    path = run.path(FINDINGS)
    try:
        table = pyarrow.parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"need the findings of a run, but {path} cannot be read ({error}); train again") from error
    if table.column_names != COLUMNS or len(table) != len(source):
        raise ValueError(f"need a line in {path} for each of {len(source):,} rows, got {len(table):,}; train again")
    return table
