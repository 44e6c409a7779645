"""What a network sees of a row, by kind: table, text, image."""
