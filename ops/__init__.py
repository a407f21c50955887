"""Gcd and AsStrided on torch tensors, computed by Triton-Ascend kernels."""
