"""What Spark's writers do: options, encodings, producers, transactions."""
