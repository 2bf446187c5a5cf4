"""Replacements for other clients' modules, so that programs that were written for them run on ottla."""
