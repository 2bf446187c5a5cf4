"""The calls of an admin client, a file for each noun."""
