"""The assignor `sticky`."""
