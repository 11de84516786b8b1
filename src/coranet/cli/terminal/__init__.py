"""What a terminal shows and hears: parsing, progress, endings. One file a verb stands beside this room.

Nothing is offered here: verbs import what they need, when they need it, so that help is shown at once.
"""

__all__: list[str] = []
