"""Sweeps, comparisons, calibration and plots: `python -m bench --help`."""
