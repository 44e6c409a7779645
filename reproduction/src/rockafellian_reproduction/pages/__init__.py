"""Comparing: records beside printed figures, and the pages that `rockafellian compare` writes."""
