"""``python -m pannier`` is the command."""

from ._command import main

main()
