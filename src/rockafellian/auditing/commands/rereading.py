"""The data and the findings of a finished run, read again and compared with what the run read and wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from rockafellian.auditing.commands.run_folder import FINDINGS, FRAME, SUMMARY, FinishedRun, read_json
from rockafellian.auditing.commands.summary import Summary
from rockafellian.auditing.data.reading import Source, read
from rockafellian.auditing.features.kinds import Images
from rockafellian.auditing.review.plan import Plan, ranking
from rockafellian.auditing.review.sample import Drawn
from rockafellian.label_issues import COLUMNS
from rockafellian.method.bands import Band


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


def read_plan(run: FinishedRun, findings: pa.Table) -> Plan:
    """Return what a run planned to have reviewed."""
    path, rows = run.path(SUMMARY), ranking(findings)
    planned = read_json(path, Summary).review
    bands = [Band(band.rows, band.low, band.high) for band in planned.bands]
    place = np.full(len(findings), -1)
    place[rows] = np.arange(len(rows))
    drawn = [Drawn(int(place[index]), band) for index, band in planned.sample if index < len(place)]
    whole = sum(band.rows for band in bands) == len(rows) and len(drawn) == len(planned.sample)
    if not whole or any(each.place < 0 or each.band >= len(bands) for each in drawn):
        raise ValueError(f"need bands and a sample of the rows of the run, but {path} has others; train again")
    return Plan(rows, bands, drawn)
