"""Loops that neither PyTorch nor NumPy has, compiled by numba when first needed; the machine code is kept on disk."""
