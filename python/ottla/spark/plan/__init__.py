"""What a read is to read, decided on the driver: options, positions, ranges, and what a stream remembers."""
