"""Pure n-dimensional tensor functions, each written once: tensors in, tensors out."""
