"""Your own data: read it, choose a model, train, list the wrong labels, and write a page to review them."""
