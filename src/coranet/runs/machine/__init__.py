"""The machine a run is on: its devices, how busy it is, and several processes of it.

Nothing here knows what is trained. PyTorch is loaded by those who import a file of it.
"""

__all__: list[str] = []
