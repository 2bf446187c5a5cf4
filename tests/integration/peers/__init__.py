"""One interface over every client that the tests compare: ours, three for Python, one for Go, and Java's console tools."""
