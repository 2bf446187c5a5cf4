"""What members of a group agree on."""
