"""``python -m smoothcruiser`` is the command line."""

from smoothcruiser.cli import main

if __name__ == "__main__":
    main()
