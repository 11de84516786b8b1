"""One file format a module: from a path to an array and its geometry, and back."""
