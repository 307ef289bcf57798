"""Notebooks run strictly: parameters checked, kernels fresh, grids resumed, rules kept."""
