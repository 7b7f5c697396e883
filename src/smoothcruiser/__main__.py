"""``python -m smoothcruiser`` is the command line."""

from smoothcruiser.cli.app import main

if __name__ == "__main__":
    main()
