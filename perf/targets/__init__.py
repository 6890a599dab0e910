"""What is measured: a directory to work in, or a store to ask, and how to make it cold."""
