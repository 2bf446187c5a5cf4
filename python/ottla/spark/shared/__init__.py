"""What reads and writes share: options, offsets, formats, clients that are kept, files."""
