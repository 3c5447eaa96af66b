"""`python -m schedulerd` is the same as the command `schedulerd`."""

from schedulerd.cli import main

if __name__ == "__main__":
    main()
