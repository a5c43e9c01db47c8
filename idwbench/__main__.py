"""``python -m idwbench`` is `idwbench`."""

from idwbench.cli.app import main

if __name__ == "__main__":
    main()
