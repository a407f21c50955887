"""Runs Triton-Ascend kernels on a host CPU from the compiler's own intermediate forms."""
