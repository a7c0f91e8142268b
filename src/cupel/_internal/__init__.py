"""Modules that every package of cupel may use, and nobody else."""
