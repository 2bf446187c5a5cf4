"""Classes for `partition_assignment_strategy`."""
