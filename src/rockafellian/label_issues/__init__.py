"""Label issues: the table of what a training found out about each row."""

from rockafellian.label_issues.from_weights import findings
from rockafellian.label_issues.table import COLUMNS, Findings

__all__ = ["COLUMNS", "Findings", "findings"]
