"""Every table and figure of the paper: which runs it needs, what is printed there, and how it is made again."""
