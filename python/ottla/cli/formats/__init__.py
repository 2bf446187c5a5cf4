"""What records look like in files and on screens: text, JSON, CSV, Arrow, Parquet and templates, both ways."""
