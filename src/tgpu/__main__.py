"""`python -m tgpu`: the command line, by whichever interpreter is named."""

import sys

from tgpu.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
