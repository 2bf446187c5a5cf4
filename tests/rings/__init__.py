"""The rings of tests: which test belongs to which, and how each ring is run. tests/README.md says what each ring proves."""
