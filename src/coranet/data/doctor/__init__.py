"""What is wrong with a folder of scans and labels, each problem with its remedy, and what is in it."""
