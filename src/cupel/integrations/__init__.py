"""Bridges to providers and frameworks, one module each; importing this package imports none of them."""
