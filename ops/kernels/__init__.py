"""Triton kernels, and nothing but kernels."""
