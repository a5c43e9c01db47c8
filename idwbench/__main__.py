"""The command line as ``python -m idwbench``."""

from idwbench.cli import main

if __name__ == "__main__":
    main()
