"""Reading what several rooms read, and turning samples into batches."""
