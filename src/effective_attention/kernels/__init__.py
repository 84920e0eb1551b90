"""Loops that neither PyTorch nor NumPy has, compiled by numba when first needed; the machine code is kept on disk.

The rest of the package calls ``choice``, which falls back on plain references. README.md says what is where.
"""
