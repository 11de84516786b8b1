"""The local page on which a person looks at predictions, corrects them by choosing or drawing, saves, and trains on.

`pieces` cuts the uncertain region into what one key settles. `corrections_folder` is what a person decided, on disk.
`workshop` makes predictions and what the page needs of each case. `server` answers the page, and `entrance` says to whom.
"""

__all__: list[str] = []
