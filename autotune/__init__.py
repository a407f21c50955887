"""Choosing tiles by measurement: candidates, measures, the store of tunings and the tuner."""
