"""The data source `ottla-log`: the files of a broker's log as rows, without a broker."""
