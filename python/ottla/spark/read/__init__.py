"""What Spark's readers do: their plans, tasks, columns, and the clients that tasks use."""
