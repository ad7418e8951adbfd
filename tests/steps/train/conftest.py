"""Bits are compared between processes here: products must be unsplit before anything in this one starts jax."""

from steps.train.threads import unsplit_products

unsplit_products()
