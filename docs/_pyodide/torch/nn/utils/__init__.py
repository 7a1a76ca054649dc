"""Helpers of `torch.nn`."""
