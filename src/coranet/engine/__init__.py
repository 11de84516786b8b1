"""The only training loop, what it reads and what it leaves behind."""
