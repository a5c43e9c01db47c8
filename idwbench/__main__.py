"""``python -m idwbench`` is `idwbench`."""

from idwbench.cli import main

if __name__ == "__main__":
    main()
