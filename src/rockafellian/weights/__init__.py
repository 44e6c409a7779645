"""The state of the method: one weight per row, kept from batch to batch."""
