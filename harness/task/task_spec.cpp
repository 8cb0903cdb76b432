// Task files are still to come.
